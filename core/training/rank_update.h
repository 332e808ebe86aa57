// The one hot loop of EASE: a small tile of A −= B·C in single precision. rank_update.cpp is
// compiled once for each instruction set (CMakeLists.txt); the best that this machine has is chosen
// at run time. Every element is summed in the same order and without fused multiply-add, so that
// all of them give the same bytes.
#pragma once

#include <cstddef>

namespace freshet::training {

inline constexpr std::size_t kPanel = 96;    // columns of B, rows of C
inline constexpr std::size_t kTileRows = 6;  // of A and B; divides kPanel
inline constexpr std::size_t kLane = 16;     // columns of A and C; divides kPanel

// a[r][j] −= Σ_k b[r][k] · c[k][j] for r < kTileRows, k < kPanel, j < kLane. Rows of a are `stride`
// floats apart, of b kPanel, of c kLane. REQUIRES: a and c at multiples of 64 bytes, stride a
// multiple of kLane.
using RankUpdate = void (*)(float* a, const float* b, const float* c, std::size_t stride);

RankUpdate best_rank_update();

}  // namespace freshet::training
