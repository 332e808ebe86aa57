// EASE (Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019): the item–item
// matrix B with a diagonal of zeros that best gives readers' touches X back from themselves, in
// closed form. With two additions that validation on ML-1M asked for (DECISIONS.md):
//
//   G = Xᵀ D X,  D = diag((n̄ / n_u)^reader_exponent): each touch of a reader of a thousand items
//   says less P = (G + λ·I + dropout/(1 − dropout) · diag G)⁻¹     (Steck, "Autoencoders that don't
//   overfit towards the B_ij = −P_ij / P_jj,  B_jj = 0                         Identity", NeurIPS
//   2020)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/training/columns.h"
#include "core/training/interactions.h"
#include "core/training/square_matrix.h"

namespace freshet::training {

struct EaseSettings {
  float lambda = 400;
  float dropout = 0.5F;
  float reader_exponent = 0.5F;
};

// (n̄ / n_u)^exponent of every reader; 0 for one without touches.
std::vector<float> reader_weights(const Interactions& interactions, float exponent);

// G, lower triangle. O(Σ n_u²).
SquareMatrix gram(const Interactions& interactions, std::span<const float> reader_weights);

// B, kept as P and what its columns are divided by. 4 · items² bytes.
class Ease {
 public:
  // Uses G up. O(items³).
  Ease(SquareMatrix gram, const EaseSettings& settings);

  // Adds row `item` of B before the division by P_jj, and P's diagonal instead of zeros: scores[j]
  // times factor(j) is right for every j that is not in the profile. scores.size() >= items.
  void accumulate(std::uint32_t item, std::span<float> scores) const;
  float factor(std::uint32_t item) const { return factors_[item]; }
  // The `neighbours` greatest of each of B's columns.
  Columns columns(std::size_t neighbours) const;

 private:
  SquareMatrix minus_p_;
  std::vector<float> factors_;
};

}  // namespace freshet::training
