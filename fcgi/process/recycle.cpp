#include "fcgi/process/recycle.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <limits>
#include <random>
#include <string_view>

namespace freshet {
namespace {

using namespace std::chrono_literals;

constexpr auto kMemoryGracePeriod = 10s;

template <class Number>
Number scaled_limit(double configured, double jitter) {
  if (configured <= 0) return std::numeric_limits<Number>::max();
  return static_cast<Number>(configured * jitter);
}

}  // namespace

RecyclePolicy::RecyclePolicy(const PoolSettings& pool, double jitter, SteadyTime started)
    : max_requests_(scaled_limit<std::uint64_t>(pool.max_requests, jitter)),
      max_rss_bytes_(scaled_limit<std::size_t>(static_cast<double>(pool.max_rss), jitter)),
      memory_check_from_(started + kMemoryGracePeriod) {}

bool RecyclePolicy::exceeds_max_rss(std::size_t rss_bytes, SteadyTime now) const {
  return rss_bytes > max_rss_bytes_ && now >= memory_check_from_;
}

double random_jitter() {
  std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.9, 1.1)(random);
}

std::size_t resident_bytes() {
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::array<char, 128> text{};
  const ssize_t bytes_read = read(fd, text.data(), text.size());
  close(fd);
  if (bytes_read <= 0) return 0;
  // Format: "size resident shared …", in pages.
  const std::string_view line(text.data(), static_cast<std::size_t>(bytes_read));
  const auto second = line.find(' ');
  std::size_t pages = 0;
  if (second == std::string_view::npos) return 0;
  std::from_chars(line.data() + second + 1, line.data() + line.size(), pages);
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace freshet
