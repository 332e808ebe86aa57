#include "core/hot/increments.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace freshet::hot {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr double kLeastWeight = 1e-9;  // less is a rounding error

struct Bucket {
  double weight;
  std::uint32_t first, last;
  float mean;

  double distance_to(double time) const { return std::max({first - time, time - last, 0.0}); }
  // The other increments have another mean, but no other first and last as far as is known.
  void remove(double time, double amount) {
    const double remaining = weight - amount;
    const double mean_of_remaining = (weight * mean - amount * (time - first)) / remaining;
    mean = static_cast<float>(std::clamp(mean_of_remaining, 0.0, static_cast<double>(last - first)));
    weight = remaining;
  }
};
static_assert(sizeof(Bucket) == 24);  // 20 bytes and padding
constexpr std::size_t kBucketBytes = 20;

}  // namespace

std::string without_increment(std::string_view increments, UnixSeconds time, double weight) {
  std::vector<Bucket> buckets(increments.size() / kBucketBytes);
  for (std::size_t i = 0; i < buckets.size(); ++i)
    std::memcpy(&buckets[i], increments.data() + i * kBucketBytes, kBucketBytes);
  const auto at = static_cast<double>(unix_s(time));
  while (weight > kLeastWeight && !buckets.empty()) {
    const auto nearest =
        std::ranges::min_element(buckets, {}, [&](const Bucket& each) { return each.distance_to(at); });
    if (nearest->weight - weight > kLeastWeight) {
      nearest->remove(at, weight);
      break;
    }
    weight -= nearest->weight;
    buckets.erase(nearest);
  }
  std::string out(buckets.size() * kBucketBytes, '\0');
  for (std::size_t i = 0; i < buckets.size(); ++i)
    std::memcpy(out.data() + i * kBucketBytes, &buckets[i], kBucketBytes);
  return out;
}

}  // namespace freshet::hot
