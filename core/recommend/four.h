// Four numbers at once, on any processor: vectors of GCC and clang.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace freshet::recommend {

using Four = float __attribute__((vector_size(16)));
using FourWhole = std::int32_t __attribute__((vector_size(16)));

inline Four four(const float* at) {
  Four out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
inline void store(Four numbers, float* at) { std::memcpy(at, &numbers, sizeof numbers); }
inline Four all(float number) { return Four{number, number, number, number}; }
inline Four greater_of(Four a, Four b) { return a > b ? a : b; }
inline Four lesser_of(Four a, Four b) { return a < b ? a : b; }

// ln, within 1e-6 or 2e-7 of it. REQUIRES: normal numbers > 0.
//
// x = m · 2^e with m in [√½, √2); ln m = 2 · atanh(s) with s = (m − 1) / (m + 1), by its series.
inline Four log_of(Four x) {
  constexpr std::int32_t kRootOfHalf = 0x3F3504F3;  // its bits
  const auto bits = std::bit_cast<FourWhole>(x);
  const FourWhole exponent = (bits - kRootOfHalf) >> 23;
  const auto m = std::bit_cast<Four>(bits - (exponent << 23));
  const Four s = (m - 1) / (m + 1), square = s * s;
  const Four series = 2 + square * (2.F / 3 + square * (2.F / 5 + square * (2.F / 7 + square * (2.F / 9))));
  return __builtin_convertvector(exponent, Four) * 0.693147181F + s * series;
}

}  // namespace freshet::recommend
