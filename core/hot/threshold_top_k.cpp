#include "core/hot/threshold_top_k.h"

#include <algorithm>
#include <functional>

#include "core/hot/views.h"

namespace freshet::hot {
namespace {

constexpr std::int64_t kHour = 3600;
// Buckets of this many hours are read at once: a round trip costs more than a few unneeded members.
constexpr std::size_t kHoursPerRead = 16;
constexpr std::int64_t kMinHeads = 4;
constexpr std::int64_t kMaxHeads = 25;
// pow() may be off by a bit or two, and the bound must not be too low.
constexpr double kRoundingMargin = 1.0 + 1e-12;

std::int64_t hour_of(UnixSeconds at) {
  const std::int64_t s = at.time_since_epoch().count();
  return (s >= 0 ? s : s - (kHour - 1)) / kHour;
}

bool is_hotter(const CurrentScore& a, const CurrentScore& b) {
  return a.score != b.score ? a.score > b.score : a.item > b.item;
}

}  // namespace

ThresholdTopK::ThresholdTopK(const std::vector<BucketUpperBound>& buckets, std::size_t k, UnixSeconds now,
                             const ViewsSettings& settings, std::optional<UnixSeconds> published_from)
    : k_(k), now_(now), settings_(settings), published_from_(published_from) {
  for (const BucketUpperBound& each : buckets) {
    if (published_from && each.name.hour < hour_of(*published_from)) continue;
    buckets_[each.name].max_unread_total = each.max_total;
    partitions_ = std::max<std::int64_t>(partitions_, each.name.partition + 1);
  }
}

double ThresholdTopK::upper_bound(std::int64_t hour, const Bucket& bucket) const {
  const UnixSeconds youngest{seconds{hour * kHour + kHour - 1}};
  return view_score(bucket.max_unread_total, youngest, now_, settings_) * kRoundingMargin;
}

std::optional<double> ThresholdTopK::kth_score() const {
  if (candidates_.size() < k_) return std::nullopt;
  std::vector<double> scores;
  scores.reserve(candidates_.size());
  for (const auto& [id, each] : candidates_) scores.push_back(each.score);
  const auto kth = scores.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
  std::nth_element(scores.begin(), kth, scores.end(), std::greater<>());
  return *kth;
}

std::optional<ThresholdTopK::Read> ThresholdTopK::next_read() const {
  struct OpenBucket {
    double bound;
    BucketName name;
    std::int64_t read_count;
  };
  const std::optional<double> kth = kth_score();
  std::vector<OpenBucket> open;
  for (const auto& [name, bucket] : buckets_) {
    if (!bucket.has_more) continue;
    const double highest = upper_bound(name.hour, bucket);
    if (!kth || highest >= *kth) open.push_back({highest, name, bucket.read_count});
  }
  if (open.empty()) return std::nullopt;
  std::sort(open.begin(), open.end(), [](const OpenBucket& a, const OpenBucket& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.name > b.name;
  });
  Read read;
  read.offset = open.front().read_count;
  read.count = std::clamp(static_cast<std::int64_t>(k_) / 4 / partitions_, kMinHeads, kMaxHeads);
  for (const OpenBucket& each : open) {
    const bool full = read.buckets.size() == kHoursPerRead * static_cast<std::size_t>(partitions_);
    if (each.read_count == read.offset && !full) read.buckets.push_back(each.name);
  }
  return read;
}

void ThresholdTopK::add_members(const Read& read, const std::vector<CurrentMember>& members) {
  std::map<BucketName, std::int64_t> received;
  for (const CurrentMember& each : members) {
    const BucketName name{hour_of(each.published), each.partition};
    const auto bucket = buckets_.find(name);
    if (bucket == buckets_.end()) continue;
    // The first member of this reply sets the bucket's bound, and the least one lowers it.
    bucket->second.max_unread_total =
        received[name]++ == 0 ? each.total : std::min(bucket->second.max_unread_total, each.total);
    ++members_read_;
    if (!each.eligible || (published_from_ && each.published < *published_from_)) continue;
    candidates_[each.item.str()] = {each.item, view_score(each.total, each.published, now_, settings_),
                                    each.published};
  }
  for (const BucketName& name : read.buckets) {
    const auto bucket = buckets_.find(name);
    if (bucket == buckets_.end()) continue;
    bucket->second.read_count += received[name];
    bucket->second.has_more = received[name] >= read.count;
  }
}

std::vector<CurrentScore> ThresholdTopK::top() const {
  std::vector<CurrentScore> all;
  all.reserve(candidates_.size());
  for (const auto& [id, each] : candidates_) all.push_back(each);
  std::sort(all.begin(), all.end(), is_hotter);
  if (all.size() > k_) all.resize(k_);
  return all;
}

}  // namespace freshet::hot
