#include "core/training/square_matrix.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/base/parallel.h"
#include "core/training/rank_update.h"

namespace freshet::training {

AlignedFloats::AlignedFloats(std::size_t count) : count_(count) {
  const std::size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
  auto* const cells = static_cast<float*>(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64)));
  if (cells == nullptr) throw std::bad_alloc();
  std::memset(cells, 0, bytes);
  cells_.reset(cells);
}

void AlignedFloats::Deleter::operator()(float* cells) const { std::free(cells); }

SquareMatrix::SquareMatrix(std::size_t items)
    : items_(items), side_((items + kPanel - 1) / kPanel * kPanel), cells_(side_ * side_) {}

SquareMatrix SquareMatrix::copy() const {
  SquareMatrix result(items_);
  std::memcpy(result.row(0), row(0), side_ * side_ * sizeof(float));
  return result;
}

// Works block by block, because either the reads or the writes go down a column.
void mirror_lower(SquareMatrix& a) {
  parallel_for(a.side() / kPanel, 1, [&](std::size_t block, std::size_t) {
    for (std::size_t left = 0; left <= block; ++left) {
      for (std::size_t r = block * kPanel; r < (block + 1) * kPanel; ++r) {
        for (std::size_t c = left * kPanel; c < std::min((left + 1) * kPanel, r); ++c)
          a.row(c)[r] = a.row(r)[c];
      }
    }
  });
}

namespace {

// The sweep operator over blocks K of kPanel rows:
//   P = A_KK⁻¹,  A_RR −= A_RK P A_KR,  A_RK = A_RK P,  A_KK = −P;  after all blocks, A is −A⁻¹.
// Needs as many operations as Cholesky, but nearly all of them are one product with independent
// rows. Works on the lower triangle; the last step fills the upper one.
class Sweep {
 public:
  explicit Sweep(SquareMatrix& a)
      : a_(a),
        blocks_(a.side() / kPanel),
        update_(best_rank_update()),
        rows_(a.side() * kPanel),
        lanes_(a.side() * kPanel),
        product_(a.side() * kPanel) {}

  void run() {
    for (std::size_t k = 0; k < blocks_; ++k) {
      invert_block(k);
      parallel_for(blocks_, 1, [&](std::size_t block, std::size_t) { prepare(k, block); });
      parallel_for(blocks_, 1, [&](std::size_t block, std::size_t) { update(k, blocks_ - 1 - block); });
      store(k);
    }
    mirror_lower(a_);
  }

 private:
  void invert_block(std::size_t k) {
    Eigen::MatrixXd block(kPanel, kPanel);
    for (std::size_t r = 0; r < kPanel; ++r) {
      for (std::size_t c = 0; c <= r; ++c) {
        const double cell = a_.row(k * kPanel + r)[k * kPanel + c];
        block(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) = cell;
        block(static_cast<Eigen::Index>(c), static_cast<Eigen::Index>(r)) = cell;
      }
    }
    const Eigen::MatrixXd inverse = block.llt().solve(Eigen::MatrixXd::Identity(kPanel, kPanel));
    for (std::size_t r = 0; r < kPanel; ++r) {
      for (std::size_t c = 0; c < kPanel; ++c) {
        minus_p_.data()[r * kPanel + c] =
            -static_cast<float>(inverse(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)));
      }
    }
  }

  // Prepares one block of rows: A_RK row by row and in lanes, and P·A_KR.
  void prepare(std::size_t k, std::size_t block) {
    float* const rows = rows_.data() + block * kPanel * kPanel;
    for (std::size_t r = 0; r < kPanel; ++r) {
      for (std::size_t c = 0; c < kPanel; ++c) {
        rows[r * kPanel + c] = block >= k ? a_.row(block * kPanel + r)[k * kPanel + c]
                                          : a_.row(k * kPanel + c)[block * kPanel + r];
      }
    }
    for (std::size_t lane = block * kLanes; lane < (block + 1) * kLanes; ++lane) {
      float* const from = lanes_.data() + lane * kPanel * kLane;
      for (std::size_t c = 0; c < kPanel; ++c) {
        for (std::size_t j = 0; j < kLane; ++j) {
          from[c * kLane + j] = rows[((lane - block * kLanes) * kLane + j) * kPanel + c];
        }
      }
      float* const to = product_.data() + lane * kPanel * kLane;
      std::fill(to, to + kPanel * kLane, 0.F);
      for (std::size_t r = 0; r < kPanel; r += kTileRows) {
        update_(to + r * kLane, minus_p_.data() + r * kPanel, from, kLane);
      }
    }
  }

  // Updates A_RR of one block of rows, up to the diagonal.
  void update(std::size_t k, std::size_t block) {
    if (block == k) return;
    for (std::size_t lane = 0; lane < (block + 1) * kLanes; ++lane) {
      if (lane / kLanes == k) continue;
      for (std::size_t r = block * kPanel; r < (block + 1) * kPanel; r += kTileRows) {
        update_(a_.row(r) + lane * kLane, rows_.data() + r * kPanel, product_.data() + lane * kPanel * kLane,
                a_.side());
      }
    }
  }

  // Stores A_RK = A_RK·P, the transpose of product_, and A_KK = −P.
  void store(std::size_t k) {
    for (std::size_t r = 0; r < a_.side(); ++r) {
      const std::size_t block = r / kPanel;
      const float* const column = product_.data() + r / kLane * kPanel * kLane + r % kLane;
      for (std::size_t c = 0; c < kPanel; ++c) {
        const std::size_t swept = k * kPanel + c;
        if (block == k) {
          a_.row(r)[swept] = minus_p_.data()[(r - k * kPanel) * kPanel + c];
        } else if (block > k) {
          a_.row(r)[swept] = column[c * kLane];
        } else {
          a_.row(swept)[r] = column[c * kLane];
        }
      }
    }
  }

  static constexpr std::size_t kLanes = kPanel / kLane;  // per block

  SquareMatrix& a_;
  std::size_t blocks_;
  RankUpdate update_;
  AlignedFloats rows_;     // A_RK: rows of kPanel
  AlignedFloats lanes_;    // A_RK transposed: for each lane, kPanel rows of kLane
  AlignedFloats product_;  // P·A_KR, in the same layout as lanes_
  AlignedFloats minus_p_{kPanel * kPanel};
};

}  // namespace

void invert_negated(SquareMatrix& a) {
  for (std::size_t i = a.items(); i < a.side(); ++i) {
    std::fill(a.row(i), a.row(i) + i, 0.F);
    a.row(i)[i] = 1;
  }
  Sweep(a).run();
}

}  // namespace freshet::training
