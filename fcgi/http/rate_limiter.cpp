#include "fcgi/http/rate_limiter.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace freshet::http {
namespace {

seconds ceil_seconds(std::int64_t us) { return std::chrono::ceil<seconds>(std::chrono::microseconds(us)); }

bool is_tighter(const RateLimitStatus& a, const RateLimitStatus& b) {
  if (a.granted != b.granted) return !a.granted;
  return a.remaining < b.remaining;
}

RateLimitStatus make_status(BucketKind kind, const TokenRate& rate, const TakeResult& take_result) {
  RateLimitStatus status{take_result.granted,
                         kind,
                         rate.capacity_us / rate.interval_us,
                         0,
                         ceil_seconds(take_result.time_to_full_us),
                         ceil_seconds(take_result.retry_after_us)};
  if (take_result.granted)
    status.remaining =
        std::max<std::int64_t>(0, rate.capacity_us - take_result.time_to_full_us) / rate.interval_us;
  return status;
}

std::uint64_t hash_key(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

constexpr double kDaySeconds = 86400;
constexpr int kKnownDays = 7;  // after which an anonymous reader counts as new again

const TokenRate kSearchRate = token_rate(kNetworkSearchTokensPerSecond, kNetworkSearchBurst);

bool is_square(std::uint32_t number) {
  const auto root = static_cast<std::uint32_t>(std::lround(std::sqrt(number)));
  return root * root == number;
}

}  // namespace

std::int64_t monotonic_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void add_rate_limit_headers(Response& response, const RateLimitStatus& status) {
  response.add_header("RateLimit-Limit", std::to_string(status.limit));
  response.add_header("RateLimit-Remaining", std::to_string(status.remaining));
  response.add_header("RateLimit-Reset", std::to_string(status.reset.count()));
}

RateLimiter::RateLimiter(LimitTables& tables, const LimitSettings& settings)
    : table_(tables.buckets),
      counts_(tables.counts),
      settings_(settings),
      service_key_(hash_key("service", table_.seed())) {
  if (settings.anonymous.rate > 0) service_ = token_rate(settings.anonymous.rate, settings.anonymous.burst);
}

RateLimitSubject RateLimiter::subject_for(const Request& request, const AuthResult& verified) const {
  RateLimitSubject subject;
  subject.signed_in = !verified.reader.empty();
  std::string visitor_key;
  if (subject.signed_in) {
    visitor_key.append("u").append(verified.reader.view());
  } else if (verified.cookie) {
    visitor_key = verified.cookie->view();
  } else {
    visitor_key.append("a")
        .append(subscriber_prefix(request.remote_addr))
        .append(1, '\0')
        .append(request.user_agent);
  }
  subject.visitor = hash_key(visitor_key, table_.seed());
  if (!subject.signed_in)
    subject.network = hash_key("n" + network_prefix(request.remote_addr), table_.seed());
  return subject;
}

// 1 while the service bucket is at least half full, rising to the network factor as it empties.
double RateLimiter::congestion_cost(std::int64_t now_us) const {
  if (service_.interval_us == 0) return 1;
  const double remaining_fraction = 1 - static_cast<double>(table_.time_to_full_us(service_key_, now_us)) /
                                            static_cast<double>(service_.capacity_us);
  return 1 + (settings_.network_factor - 1) * std::clamp(1 - 2 * remaining_fraction, 0.0, 1.0);
}

std::optional<RateLimitStatus> RateLimiter::try_consume(const RouteCost& cost,
                                                        const RateLimitSubject& subject, std::int64_t now_us,
                                                        double write_cost) {
  if (cost.endpoint.empty()) return std::nullopt;
  const TokenBucket& bucket = settings_.*cost.bucket;
  std::optional<RateLimitStatus> tightest;
  const auto consume = [&](BucketKind kind, std::uint64_t key, const TokenRate& rate, double tokens) {
    const double us = std::min(std::ceil(tokens * static_cast<double>(rate.interval_us)),
                               static_cast<double>(rate.capacity_us));
    const RateLimitStatus status =
        make_status(kind, rate, table_.take(key, rate, now_us, static_cast<std::int64_t>(us)));
    if (!tightest || is_tighter(status, *tightest)) tightest = status;
    return status.granted;
  };
  const bool uses_service_bucket = cost.creates_keys && !subject.signed_in && service_.interval_us > 0;
  if (bucket.rate > 0) {
    const TokenRate visitor_rate = token_rate(bucket.rate, bucket.burst);
    if (!consume(BucketKind::kVisitor, hash_key(cost.endpoint, subject.visitor), visitor_rate, 1))
      return tightest;
    if (!subject.signed_in && settings_.network_factor > 0) {
      const double factor = settings_.network_factor;
      const TokenRate network_rate = token_rate(bucket.rate * factor, bucket.burst * factor);
      const double tokens = cost.creates_keys ? std::max(congestion_cost(now_us), write_cost) : 1;
      if (!consume(BucketKind::kNetwork, hash_key(cost.endpoint, subject.network), network_rate, tokens))
        return tightest;
    }
  }
  const bool limits_searches = cost.searches && subject.limits_searches && settings_.network_factor > 0;
  if (limits_searches && !consume(BucketKind::kNetwork, hash_key("search", subject.network), kSearchRate, 0))
    return tightest;
  if (uses_service_bucket) consume(BucketKind::kService, service_key_, service_, 1);
  return tightest;
}

std::optional<RateLimitStatus> RateLimiter::charge(const RouteCost& cost, const RateLimitSubject& subject,
                                                   std::chrono::microseconds search_time,
                                                   const std::optional<RateLimitStatus>& before,
                                                   std::int64_t now_us) {
  if (cost.endpoint.empty()) return before;
  std::optional<RateLimitStatus> tightest = before;
  const auto charge = [&](BucketKind kind, std::uint64_t key, const TokenRate& rate,
                          std::chrono::microseconds charged_time) {
    const double tokens =
        static_cast<double>(charged_time.count()) / static_cast<double>(kSearchTimePerToken.count());
    const auto us = std::llround(tokens * static_cast<double>(rate.interval_us));
    const RateLimitStatus status = make_status(kind, rate, {true, 0, table_.charge(key, rate, now_us, us)});
    if (!tightest || is_tighter(status, *tightest)) tightest = status;
  };
  const double factor = settings_.network_factor;
  if (cost.searches && subject.limits_searches && factor > 0)
    charge(BucketKind::kNetwork, hash_key("search", subject.network), kSearchRate, search_time);
  const TokenBucket& bucket = settings_.*cost.bucket;
  if (search_time <= kSearchTimePerToken || bucket.rate <= 0) return tightest;
  const std::chrono::microseconds excess = search_time - kSearchTimePerToken;
  charge(BucketKind::kVisitor, hash_key(cost.endpoint, subject.visitor),
         token_rate(bucket.rate, bucket.burst), excess);
  if (!subject.signed_in && factor > 0)
    charge(BucketKind::kNetwork, hash_key(cost.endpoint, subject.network),
           token_rate(bucket.rate * factor, bucket.burst * factor), excess);
  return tightest;
}

namespace {
const TokenRate kCreationRate =
    token_rate(kUnverifiedArticlesPerDay / kDaySeconds, kUnverifiedArticlesPerDay);
}  // namespace

bool RateLimiter::may_create_article(std::string_view network, std::int64_t now_us) const {
  const std::int64_t used_us = table_.time_to_full_us(hash_key(network, table_.seed() + 1), now_us);
  return used_us + kCreationRate.interval_us <= kCreationRate.capacity_us;
}

void RateLimiter::count_created_article(std::string_view network, std::int64_t now_us) {
  table_.charge(hash_key(network, table_.seed() + 1), kCreationRate, now_us, kCreationRate.interval_us);
}

bool RateLimiter::may_keep_event_id(std::string_view address, std::int64_t max_kept, std::int64_t now_us) {
  if (max_kept == 0 || settings_.network_factor == 0) return true;
  const auto burst = std::max(1.0, static_cast<double>(max_kept) / 2);
  const std::uint64_t key = hash_key(network_prefix(address), hash_key("event ids", table_.seed()));
  return table_.take(key, token_rate(burst / kDaySeconds, burst), now_us).granted;
}

bool RateLimiter::may_store_anonymous(std::string_view reader, std::string_view address, UnixSeconds now) {
  if (settings_.anonymous_per_network == 0) return true;
  const std::int64_t today = std::chrono::floor<std::chrono::days>(now).time_since_epoch().count();
  const std::uint64_t key = hash_key(reader, hash_key("anonymous reader", table_.seed()));
  for (int back = 0; back <= kKnownDays; ++back) {
    // A counter holds the reader's age in days, plus 1. It moves to today, since new counters
    // replace those of other days first.
    const std::uint32_t known = counts_.count(key, today - back);
    if (known == 0) continue;
    const std::uint32_t number = known + static_cast<std::uint32_t>(back);
    if (back > 0 && number > std::uint32_t{kKnownDays} + 1) break;
    while (back > 0 && counts_.increment(key, today) < number) continue;
    return true;
  }
  const std::uint64_t network =
      hash_key(network_prefix(address), hash_key("anonymous readers", table_.seed()));
  if (counts_.increment(network, today) > static_cast<std::uint32_t>(settings_.anonymous_per_network)) {
    counts_.decrement(network, today);
    return false;
  }
  counts_.increment(key, today);
  return true;
}

PageViewNumber RateLimiter::number_page_view(std::string_view endpoint, std::string_view source,
                                             std::string_view article, UnixSeconds now) {
  if (settings_.pv_per_network == 0 && settings_.contribution_after == 0) return {};
  PageViewNumber page_view;
  page_view.key = hash_key(article, hash_key(source, hash_key(endpoint, table_.seed())));
  page_view.day = std::chrono::floor<std::chrono::days>(now).time_since_epoch().count();
  page_view.number = counts_.increment(page_view.key, page_view.day);
  page_view.within_quota = settings_.pv_per_network == 0 ||
                           page_view.number <= static_cast<std::uint32_t>(settings_.pv_per_network) ||
                           is_square(page_view.number);
  page_view.should_record = page_view.number > static_cast<std::uint32_t>(settings_.contribution_after);
  return page_view;
}

void RateLimiter::give_back(const PageViewNumber& page_view) {
  if (page_view.number == 0) return;
  const bool may_renumber = settings_.pv_per_network == 0 ||
                            page_view.number <= static_cast<std::uint32_t>(settings_.pv_per_network);
  counts_.decrement(page_view.key, page_view.day,
                    may_renumber ? std::nullopt : std::optional(page_view.number));
}

}  // namespace freshet::http
