// Work on rows, by a few threads. What is computed for a row must not depend on who computes it:
// then the result does not depend on the number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace freshet {

inline constexpr unsigned kTrainingThreads = 2;

// Calls each(begin, end) for consecutive pieces of [0, count) of at most `piece` rows, from
// kTrainingThreads threads or fewer. Returns when all are done.
void parallel_for(std::size_t count, std::size_t chunk_size,
               const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace freshet
