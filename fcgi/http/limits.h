// Who may ask how often: the buckets that a request takes from, before its handler
// (core/base/limit_table.h).
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

#include "core/base/limit_table.h"
#include "core/config/settings.h"
#include "fcgi/gateway/request.h"
#include "fcgi/http/identity.h"

namespace freshet::http {

// A token pays for so much CPU of a search; who asks for more is charged the rest. At 5 requests a
// second a visitor has 25 ms of searches a second for good, and 60 times 5 ms at once.
inline constexpr std::chrono::microseconds kSearchPerToken{5000};

// What a request of a route costs: nothing, or a token of each bucket.
struct Cost {
  std::string_view endpoint = {};  // a literal, part of the buckets' names; empty: costs nothing
  TokenBucket LimitSettings::*bucket = nullptr;
  bool makes_keys = false;               // the service's bucket, too, when nobody is signed in
  std::string_view with_parameter = {};  // only when the query has this one
};

// What the clients of a network, or a visitor, may add in a day, however many requests bring it: a
// bucket of so many that fills in a day.
enum class Share : std::uint8_t {
  kUnknown,       // articles that nobody vouched for, which come into being by it
  kVisitors,      // visitors of an article: limits.uv_per_network
  kUnremembered,  // reports before what a visitor adds is remembered: limits.remember_after
};
inline constexpr int kUnknownADay = 100;

// Whose buckets they are, as hashes.
struct Payer {
  std::uint64_t visitor = 0;
  std::uint64_t network = 0;
  bool signed_in = false;
};

enum class BucketKind : std::uint8_t { kVisitor, kNetwork, kService };

// Of the bucket that has the fewest tokens left, or that had none.
struct Allowance {
  bool granted = true;
  BucketKind kind = BucketKind::kVisitor;
  std::int64_t limit = 0, remaining = 0;  // tokens
  seconds reset{0};                       // until it is full
  seconds wait{0};                        // not granted: until it would be
};

// RateLimit-Limit, -Remaining and -Reset.
void add_headers(Response& response, const Allowance& allowance);

class Limits {
 public:
  // Both must outlive this.
  Limits(TokenBucketTable& table, const LimitSettings& settings);

  Payer payer(const Request& request, const Verified& verified) const;
  // None: there is no limit. What one bucket gave before another refused is not given back, so a
  // network that asks on while it is refused stays the heaviest. No I/O, below 1 µs.
  std::optional<Allowance> take(const Cost& cost, const Payer& payer, std::int64_t now_us);
  // Takes what a request's searches cost beyond its token from the visitor's and network's buckets,
  // when that is known; either may owe one whole bucket. The tighter of the two, or `before`, as it
  // is now.
  std::optional<Allowance> charge(const Cost& cost, const Payer& payer, std::chrono::microseconds searched,
                                  const std::optional<Allowance>& before, std::int64_t now_us);

  // Whether something is left of a share. `whose`: a network or visitor by name; `of`: the article.
  bool is_left(Share share, std::string_view whose, std::string_view of, std::int64_t now_us) const;
  // Takes one, whether it is there or not.
  void use(Share share, std::string_view whose, std::string_view of, std::int64_t now_us);

 private:
  TokenRate rate_of(Share share) const;
  double price(std::int64_t now_us) const;

  TokenBucketTable& table_;
  const LimitSettings& settings_;
  TokenRate service_{};  // interval 0: no limit
  std::uint64_t service_key_ = 0;
};

// CLOCK_MONOTONIC, which all processes of a host share.
std::int64_t monotonic_us();

}  // namespace freshet::http
