// Who may ask how often: the buckets that a request takes from, before its handler
// (core/base/token_bucket_table.h).
//
//   visitor   the reader who is signed in, else the visitor's cookie, else address (of IPv6 the
//   /64) and
//             User-Agent: rate and burst of the route's own directives, limits.track_rate …
//   network   the IPv4 /24 or IPv6 /48 of those who are not signed in: limits.network_factor times
//   a
//             visitor's rate and burst
//   service   all that is anonymous and makes keys: limits.anonymous_rate
//
// The heaviest networks are refused first. While the service's bucket is less than half full, a
// request costs its network more than one token: up to limits.network_factor when the service has
// none left. Its price is the same for all, so networks that ask for more than the service can give
// get equal parts of it, of a visitor's rate at least, and those that ask for less do not notice.
//
// An id that a request claims in mode `open` makes nobody signed in: a client can change it at
// will.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/token_bucket_table.h"
#include "core/config/settings.h"
#include "fcgi/gateway/request.h"
#include "fcgi/http/identity.h"

namespace freshet::http {

// A token pays for so much CPU of a search; who asks for more is charged the rest. At 5 requests a
// second a visitor has 25 ms of searches a second for good, and 60 times 5 ms at once.
inline constexpr std::chrono::microseconds kSearchTimePerToken{5000};

// What a request of a route costs: nothing, or a token of each bucket.
struct RouteCost {
  std::string_view endpoint = {};  // a literal, part of the buckets' names; empty: costs nothing
  TokenBucket LimitSettings::*bucket = nullptr;
  bool creates_keys = false;               // the service's bucket, too, when nobody is signed in
  std::string_view only_with_parameter = {};  // only when the query has this one
};

// What the clients of a network, or a visitor, may add in a day, however many requests bring it: a
// bucket of so many that fills in a day.
enum class Quota : std::uint8_t {
  kUnverifiedArticles,       // articles that nobody vouched for, which come into being by it
  kArticleVisitors,      // visitors of an article: limits.uv_per_network
  kUnattributedReports,  // reports before what a visitor adds is remembered: limits.contribution_after
};
inline constexpr int kUnverifiedArticlesPerDay = 100;

// Whose buckets they are, as hashes.
struct RateLimitSubject {
  std::uint64_t visitor = 0;
  std::uint64_t network = 0;
  bool signed_in = false;
};

enum class BucketKind : std::uint8_t { kVisitor, kNetwork, kService };

// Of the bucket that has the fewest tokens left, or that had none.
struct RateLimitStatus {
  bool granted = true;
  BucketKind kind = BucketKind::kVisitor;
  std::int64_t limit = 0, remaining = 0;  // tokens
  seconds reset{0};                       // until it is full
  seconds retry_after{0};                        // not granted: until it would be
};

// RateLimit-Limit, -Remaining and -Reset.
void add_rate_limit_headers(Response& response, const RateLimitStatus& status);

class RateLimiter {
 public:
  // Both must outlive this.
  RateLimiter(TokenBucketTable& table, const LimitSettings& settings);

  RateLimitSubject subject_for(const Request& request, const AuthResult& verified) const;
  // None: there is no limit. What one bucket gave before another refused is not given back, so a
  // network that asks on while it is refused stays the heaviest. No I/O, below 1 µs.
  std::optional<RateLimitStatus> try_consume(const RouteCost& cost, const RateLimitSubject& subject, std::int64_t now_us);
  // Takes what a request's searches cost beyond its token from the visitor's and network's buckets,
  // when that is known; either may owe one whole bucket. The tighter of the two, or `before`, as it
  // is now.
  std::optional<RateLimitStatus> charge(const RouteCost& cost, const RateLimitSubject& subject, std::chrono::microseconds search_time,
                                  const std::optional<RateLimitStatus>& before, std::int64_t now_us);

  // Whether something is left of a share. `whose`: a network or visitor by name; `of`: the article.
  bool has_quota(Quota quota, std::string_view owner, std::string_view article, std::int64_t now_us) const;
  // Takes one, whether it is there or not.
  void consume_quota(Quota quota, std::string_view owner, std::string_view article, std::int64_t now_us);

 private:
  TokenRate quota_rate(Quota quota) const;
  double congestion_cost(std::int64_t now_us) const;

  TokenBucketTable& table_;
  const LimitSettings& settings_;
  TokenRate service_{};  // interval 0: no limit
  std::uint64_t service_key_ = 0;
};

// CLOCK_MONOTONIC, which all processes of a host share.
std::int64_t monotonic_us();

}  // namespace freshet::http
