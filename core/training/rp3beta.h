// RP3beta (Paudel et al., "Updatable, Accurate, Diverse, and Scalable Recommendations for
// Interactive Applications", TiiS 2017): a walk of three steps from reader to item to reader to
// item, the last one made less attractive by popularity. From item i to item j:
//
//   W_ij = d_i^−α · Σ over readers u of both: d_u^−α · d_j^−β,   d the number of touches;  W_jj = 0
#pragma once

#include <span>

#include "core/training/columns.h"
#include "core/training/interactions.h"

namespace freshet::training {

struct Rp3Settings {
  float alpha = 0.6F;
  float beta = 0.3F;
};

// Columns j of W before the last factor, d_j^−β, each with its `neighbours` greatest. O(Σ n_u²).
Columns rp3_columns(const Interactions& interactions, float alpha, std::size_t neighbours);

// d_j^−β of every item; 0 without touches. The columns times these are W.
std::vector<float> rp3_scale(const Interactions& interactions, float beta);

}  // namespace freshet::training
