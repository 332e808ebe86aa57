#include "core/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace freshet {

void in_pieces(std::size_t count, std::size_t piece,
               const std::function<void(std::size_t, std::size_t)>& each) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (;;) {
      const std::size_t begin = next.fetch_add(piece);
      if (begin >= count) return;
      each(begin, std::min(begin + piece, count));
    }
  };
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned others = count > piece ? std::min(kTrainingThreads, cores) - 1 : 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < others; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace freshet
