// RP3beta (Paudel et al., "Updatable, Accurate, Diverse, and Scalable Recommendations for
// Interactive Applications", TiiS 2017): a three-step random walk item → reader → item with a
// popularity penalty on the last step. From item i to item j:
//
//   W_ij = d_i^−α · Σ over common readers u of d_u^−α · d_j^−β,  W_jj = 0
//
// where d is the number of interactions.
#pragma once

#include <span>

#include "core/training/columns.h"
#include "core/training/interactions.h"

namespace freshet::training {

struct Rp3Settings {
  float alpha = 0.6F;
  float beta = 0.3F;
};

// The columns of W without the factor d_j^−β, each pruned to its `neighbours` greatest entries. O(Σ
// n_u²).
Columns rp3_columns(const Interactions& interactions, float alpha, std::size_t neighbours);

// d_j^−β for every item; 0 for items without interactions. Multiplying the columns by these gives
// W.
std::vector<float> rp3_scale(const Interactions& interactions, float beta);

}  // namespace freshet::training
