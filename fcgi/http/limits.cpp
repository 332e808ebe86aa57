#include "fcgi/http/limits.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace freshet::http {
namespace {

seconds ceil_seconds(std::int64_t us) { return std::chrono::ceil<seconds>(std::chrono::microseconds(us)); }

bool is_tighter(const Allowance& a, const Allowance& b) {
  if (a.granted != b.granted) return !a.granted;
  return a.remaining < b.remaining;
}

Allowance allowance(BucketKind kind, const TokenRate& rate, const TakeResult& taken) {
  Allowance out{taken.granted,
                kind,
                rate.capacity_us / rate.interval_us,
                0,
                ceil_seconds(taken.time_to_full_us),
                ceil_seconds(taken.retry_after_us)};
  if (taken.granted)
    out.remaining = std::max<std::int64_t>(0, rate.capacity_us - taken.time_to_full_us) / rate.interval_us;
  return out;
}

std::uint64_t hashed(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

constexpr double kDaySeconds = 86400;

std::uint64_t hashed(Share share, std::string_view whose, std::string_view of, std::uint64_t seed) {
  const std::uint64_t owner = hashed(whose, seed + 1 + static_cast<std::uint64_t>(share));
  return hashed(of, owner);
}

}  // namespace

std::int64_t monotonic_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void add_headers(Response& response, const Allowance& allowance) {
  response.add_header("RateLimit-Limit", std::to_string(allowance.limit));
  response.add_header("RateLimit-Remaining", std::to_string(allowance.remaining));
  response.add_header("RateLimit-Reset", std::to_string(allowance.reset.count()));
}

Limits::Limits(TokenBucketTable& table, const LimitSettings& settings)
    : table_(table), settings_(settings), service_key_(hashed("service", table.seed())) {
  if (settings.anonymous.rate > 0) service_ = token_rate(settings.anonymous.rate, settings.anonymous.burst);
}

Payer Limits::payer(const Request& request, const Verified& verified) const {
  Payer out;
  out.signed_in = !verified.reader.empty();
  std::string who;
  if (out.signed_in) {
    who.append("u").append(verified.reader.view());
  } else if (verified.cookie) {
    who = verified.cookie->view();
  } else {
    who.append("a").append(address_class(request.remote_addr)).append(1, '\0').append(request.user_agent);
  }
  out.visitor = hashed(who, table_.seed());
  if (!out.signed_in) out.network = hashed("n" + address_network(request.remote_addr), table_.seed());
  return out;
}

// From 1, while half of the service's tokens are there, to the network's whole factor when none is.
double Limits::price(std::int64_t now_us) const {
  if (service_.interval_us == 0) return 1;
  const double left = 1 - static_cast<double>(table_.time_to_full_us(service_key_, now_us)) /
                              static_cast<double>(service_.capacity_us);
  return 1 + (settings_.network_factor - 1) * std::clamp(1 - 2 * left, 0.0, 1.0);
}

std::optional<Allowance> Limits::take(const Cost& cost, const Payer& payer, std::int64_t now_us) {
  if (cost.endpoint.empty()) return std::nullopt;
  const TokenBucket& bucket = settings_.*cost.bucket;
  std::optional<Allowance> tightest;
  const auto takes = [&](BucketKind kind, std::uint64_t key, const TokenRate& rate, double tokens) {
    const auto us = static_cast<std::int64_t>(std::ceil(tokens * static_cast<double>(rate.interval_us)));
    const Allowance one = allowance(kind, rate, table_.take(key, rate, now_us, us));
    if (!tightest || is_tighter(one, *tightest)) tightest = one;
    return one.granted;
  };
  const bool for_all = cost.makes_keys && !payer.signed_in && service_.interval_us > 0;
  if (bucket.rate > 0) {
    const TokenRate own = token_rate(bucket.rate, bucket.burst);
    if (!takes(BucketKind::kVisitor, hashed(cost.endpoint, payer.visitor), own, 1)) return tightest;
    if (!payer.signed_in && settings_.network_factor > 0) {
      const double factor = settings_.network_factor;
      const TokenRate shared = token_rate(bucket.rate * factor, bucket.burst * factor);
      const double tokens = for_all ? price(now_us) : 1;
      if (!takes(BucketKind::kNetwork, hashed(cost.endpoint, payer.network), shared, tokens)) return tightest;
    }
  }
  if (for_all) takes(BucketKind::kService, service_key_, service_, 1);
  return tightest;
}

std::optional<Allowance> Limits::charge(const Cost& cost, const Payer& payer,
                                        std::chrono::microseconds searched,
                                        const std::optional<Allowance>& before, std::int64_t now_us) {
  if (cost.endpoint.empty() || searched <= kSearchPerToken) return before;
  const TokenBucket& bucket = settings_.*cost.bucket;
  if (bucket.rate <= 0) return before;
  const double tokens = static_cast<double>((searched - kSearchPerToken).count()) /
                        static_cast<double>(kSearchPerToken.count());
  std::optional<Allowance> tightest = before;
  const auto charge = [&](BucketKind kind, std::uint64_t key, const TokenRate& rate) {
    const auto us = std::llround(tokens * static_cast<double>(rate.interval_us));
    const Allowance one = allowance(kind, rate, {true, 0, table_.charge(key, rate, now_us, us)});
    if (!tightest || is_tighter(one, *tightest)) tightest = one;
  };
  charge(BucketKind::kVisitor, hashed(cost.endpoint, payer.visitor), token_rate(bucket.rate, bucket.burst));
  const double factor = settings_.network_factor;
  if (!payer.signed_in && factor > 0)
    charge(BucketKind::kNetwork, hashed(cost.endpoint, payer.network),
           token_rate(bucket.rate * factor, bucket.burst * factor));
  return tightest;
}

// Interval 0: as many as one likes.
TokenRate Limits::rate_of(Share share) const {
  int a_day = kUnknownADay;
  if (share == Share::kVisitors) a_day = settings_.uv_per_network;
  if (share == Share::kUnremembered) a_day = settings_.contribution_after;
  return a_day > 0 ? token_rate(a_day / kDaySeconds, a_day) : TokenRate{};
}

bool Limits::is_left(Share share, std::string_view whose, std::string_view of, std::int64_t now_us) const {
  const TokenRate rate = rate_of(share);
  if (rate.interval_us == 0) return true;
  const std::int64_t owed = table_.time_to_full_us(hashed(share, whose, of, table_.seed()), now_us);
  return owed + rate.interval_us <= rate.capacity_us;
}

void Limits::use(Share share, std::string_view whose, std::string_view of, std::int64_t now_us) {
  const TokenRate rate = rate_of(share);
  if (rate.interval_us > 0)
    table_.charge(hashed(share, whose, of, table_.seed()), rate, now_us, rate.interval_us);
}

}  // namespace freshet::http
