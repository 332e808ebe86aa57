#include "core/training/rank_update.h"

namespace freshet::training {

void rank_update_generic(float* a, const float* b, const float* c, std::size_t stride);
#ifdef FRESHET_X86_64
void rank_update_avx2(float* a, const float* b, const float* c, std::size_t stride);
void rank_update_avx512(float* a, const float* b, const float* c, std::size_t stride);
#endif

RankUpdate best_rank_update() {
#ifdef FRESHET_X86_64
  if (__builtin_cpu_supports("avx512f")) return rank_update_avx512;
  if (__builtin_cpu_supports("avx2")) return rank_update_avx2;
#endif
  return rank_update_generic;
}

}  // namespace freshet::training
