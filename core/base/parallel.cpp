#include "core/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace freshet {

void parallel_for(std::size_t count, std::size_t chunk_size,
                  const std::function<void(std::size_t, std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (;;) {
      const std::size_t begin = next.fetch_add(chunk_size);
      if (begin >= count) return;
      body(begin, std::min(begin + chunk_size, count));
    }
  };
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned extra_threads = count > chunk_size ? std::min(kTrainingThreads, cores) - 1 : 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < extra_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace freshet
