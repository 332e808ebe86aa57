// Data-parallel loops on a few threads. Each row's result must depend on the row alone, so that the
// number of threads cannot change it.
#pragma once

#include <cstddef>
#include <functional>

namespace freshet {

inline constexpr unsigned kTrainingThreads = 2;

// Calls body(begin, end) for consecutive chunks of [0, count) of at most `chunk_size` rows, on up
// to kTrainingThreads threads. Returns when all chunks are done.
void parallel_for(std::size_t count, std::size_t chunk_size,
                  const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace freshet
