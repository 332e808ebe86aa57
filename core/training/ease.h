// EASE (Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019): the item–item
// matrix B with a zero diagonal that best reconstructs the readers' interactions X from themselves,
// in closed form. Two extensions improved validation on ML-1M (DECISIONS.md): weights per reader,
// and the dropout regularization of Steck, "Autoencoders that don't overfit towards the Identity",
// NeurIPS 2020.
//
//   G = Xᵀ D X,  D = diag((n̄ / n_u)^reader_exponent)  (interactions of heavy readers count less)
//   P = (G + λ·I + dropout/(1 − dropout) · diag G)⁻¹
//   B_ij = −P_ij / P_jj,  B_jj = 0
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

// (n̄ / n_u)^exponent for every reader; 0 for readers without interactions.
std::vector<float> reader_weights(const Interactions& interactions, float exponent);

// G, lower triangle only. O(Σ n_u²).
SquareMatrix gram(const Interactions& interactions, std::span<const float> reader_weights);

// B, stored as −P and the divisors of its columns. 4 · items² bytes.
class Ease {
 public:
  // Consumes G. O(items³).
  Ease(SquareMatrix gram, const EaseSettings& settings);

  // Adds row `item` of B without the division by P_jj and without clearing the diagonal. scores[j]
  // · factor(j) is correct for every j outside the profile. Requires scores.size() >= items.
  void accumulate(std::uint32_t item, std::span<float> scores) const;
  float factor(std::uint32_t item) const { return factors_[item]; }
  // The `neighbours` greatest entries of each column of B.
  Columns columns(std::size_t neighbours) const;

 private:
  SquareMatrix minus_p_;
  std::vector<float> factors_;
};

}  // namespace freshet::training
