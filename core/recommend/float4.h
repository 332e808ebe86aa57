// Four-lane SIMD vectors, based on the portable vector extensions of GCC and Clang.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace freshet::recommend {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = std::int32_t __attribute__((vector_size(16)));

inline Float4 load4(const float* at) {
  Float4 out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
inline void store4(Float4 numbers, float* at) { std::memcpy(at, &numbers, sizeof numbers); }
inline Float4 splat4(float number) { return Float4{number, number, number, number}; }
inline Float4 max4(Float4 a, Float4 b) { return a > b ? a : b; }
inline Float4 min4(Float4 a, Float4 b) { return a < b ? a : b; }

// Natural logarithm. Error at most 1e-6, or 2e-7 of the result if that is larger. REQUIRES: normal
// numbers > 0.
//
// x = m · 2^e with m in [√½, √2); ln m = 2 · atanh(s) with s = (m − 1) / (m + 1), by its series.
inline Float4 log4(Float4 x) {
  constexpr std::int32_t kRootOfHalf = 0x3F3504F3;  // bit pattern of √½
  const auto bits = std::bit_cast<Int4>(x);
  const Int4 exponent = (bits - kRootOfHalf) >> 23;
  const auto m = std::bit_cast<Float4>(bits - (exponent << 23));
  const Float4 s = (m - 1) / (m + 1), square = s * s;
  const Float4 series = 2 + square * (2.F / 3 + square * (2.F / 5 + square * (2.F / 7 + square * (2.F / 9))));
  return __builtin_convertvector(exponent, Float4) * 0.693147181F + s * series;
}

}  // namespace freshet::recommend
