#include "core/hot/article.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/redis/fields.h"

namespace freshet::hot {
namespace {

enum Field {
  kPv,
  kUv,
  kMs,
  kRenewed,
  kCorrection,
  kFirst,
  kDate,
  kEarly,
  kHidden,
  kVersion,
  kViews,
  kTotal,
  kScore,
  kViewed,
  kShown,
  kNets,
  kTrend
};
constexpr std::array<std::string_view, 17> kFields{
    "pv", "uv",    "ms",    "renewed", "uv_correction", "first", "date", "early", "hidden",
    "v",  "views", "total", "score",   "viewed",        "shown", "nets", "trend"};

bool is_live(std::string_view renewed, seconds ttl, UnixSeconds now) {
  return !renewed.empty() && unix_s(now) < redis::to_int(renewed) + ttl.count();
}

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

void append_article_read(redis::Pipeline& out, const redis::Keys& keys, std::string_view id) {
  out.command(2 + kFields.size()).arg("HMGET").arg(keys.article(id));
  for (const std::string_view name : kFields) out.arg(name);
}

Article parse_article(const redis::Reply& reply, UnixSeconds now, const Settings& settings) {
  const auto text = [&](Field field) { return redis::string_at(reply, field); };
  const auto number = [&](Field field) { return redis::to_int(text(field)); };
  Article out;
  if (is_live(text(kRenewed), settings.engagement.counter_ttl, now)) {
    const std::int64_t pv = number(kPv), uv = std::max<std::int64_t>(0, number(kUv) - number(kCorrection));
    out.counts = {pv, uv, number(kMs), pv};
  }
  if (text(kRenewed).empty() || out.counts.pv > 0) out.impressions = number(kShown);
  if (is_live(text(kViewed), settings.views.counter_ttl, now)) {
    out.views = number(kViews);
    out.views_total = redis::parse_or_zero<double>(text(kTotal));
  }
  out.views_score = redis::parse<double>(text(kScore));
  out.trend = parse_trend(text(kTrend));
  out.in_item_store = !text(kDate).empty();
  for (const Field field : {kDate, kFirst}) {
    if (!out.published && !text(field).empty()) out.published = UnixSeconds{seconds{number(field)}};
  }
  out.decay_start = std::min(
      text(kEarly).empty() ? out.published.value_or(now) : UnixSeconds{seconds{number(kEarly)}}, now);
  out.hidden = text(kHidden) == "1";
  out.listed = out.in_item_store || text(kNets).empty() || text(kNets).starts_with('+');
  out.version = number(kVersion);
  return out;
}

std::optional<double> rank_score(const Article& article, const Model& model, const Settings& settings) {
  if (!is_rankable(article)) return std::nullopt;
  if (!model.is_computed()) return article.views_score;
  if (model.base == nullptr) {
    if (!article.has_counters() || !article.trend) return std::nullopt;
    return article.trend->at(trending_index(model.half_life(settings)).value());
  }
  if (article.counts.pv <= 0) return std::nullopt;
  const double key =
      rank_key(model.base(article.counts, settings), article.decay_start, model.half_life(settings));
  return std::isfinite(key) ? std::optional(key) : std::nullopt;
}

std::optional<TrendSums> parse_trend(std::string_view field) {
  TrendSums sums;
  if (field.size() != sizeof sums) return std::nullopt;
  std::memcpy(sums.data(), field.data(), sizeof sums);
  return sums;
}

std::string encode_trend(const TrendSums& sums) {
  std::string out(sizeof sums, '\0');
  std::memcpy(out.data(), sums.data(), sizeof sums);
  return out;
}

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
