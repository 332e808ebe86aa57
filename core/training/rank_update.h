// The hot loop of EASE: a tile of A −= B·C in single precision. rank_update.cpp is compiled once
// per instruction set (CMakeLists.txt), and the best supported version is chosen at run time. All
// versions sum in the same order and without fused multiply-add, so their results are identical to
// the last bit.
#pragma once

#include <cstddef>

namespace freshet::training {

inline constexpr std::size_t kPanel = 96;    // columns of B, rows of C
inline constexpr std::size_t kTileRows = 6;  // of A and B; divides kPanel
inline constexpr std::size_t kLane = 16;     // columns of A and C; divides kPanel

// a[r][j] −= Σ_k b[r][k] · c[k][j] for r < kTileRows, k < kPanel, j < kLane. Row strides in floats:
// `stride` for a, kPanel for b, kLane for c. REQUIRES: a and c aligned to 64 bytes, stride a
// multiple of kLane.
using RankUpdate = void (*)(float* a, const float* b, const float* c, std::size_t stride);

RankUpdate best_rank_update();

}  // namespace freshet::training
