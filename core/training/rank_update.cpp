#include "core/training/rank_update.h"

namespace freshet::training {

// The name is a macro that is different for each instruction set.
void FRESHET_RANK_UPDATE(float* a, const float* b, const float* c, std::size_t stride) {
  // As wide as the widest registers; the compiler splits it for narrower ones.
  using Lane = float __attribute__((vector_size(kLane * sizeof(float))));
  Lane sum[kTileRows];
  for (std::size_t r = 0; r < kTileRows; ++r) sum[r] = *reinterpret_cast<const Lane*>(a + r * stride);
  for (std::size_t k = 0; k < kPanel; ++k) {
    const Lane row = *reinterpret_cast<const Lane*>(c + k * kLane);
    for (std::size_t r = 0; r < kTileRows; ++r) sum[r] -= row * b[r * kPanel + k];
  }
  for (std::size_t r = 0; r < kTileRows; ++r) *reinterpret_cast<Lane*>(a + r * stride) = sum[r];
}

}  // namespace freshet::training
