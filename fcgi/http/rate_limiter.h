// Rate limits: the token buckets (core/base/token_bucket_table.h) that a request is charged to
// before its handler runs.
//
//   visitor   the signed-in reader, otherwise the visitor cookie, otherwise address (IPv6: its /64)
//             and User-Agent. Rate and burst of the route's directive, such as limits.track_rate.
//   network   the IPv4 /24 or IPv6 /48 of clients that are not signed in: limits.network_factor
//             times a visitor's rate and burst.
//   service   all anonymous requests that create keys: limits.anonymous_rate.
//
// The heaviest networks are refused first. While the service bucket is less than half full, a
// request costs its network more than one token, up to limits.network_factor tokens when the bucket
// is empty. The cost is the same for every network, so networks that request more than the service
// can handle get equal shares, each at least a visitor's rate, and the others are not affected.
//
// Requests that may create keys also cost more while Redis' memory is scarce, up to the whole
// bucket (redis::write_cost); a network may then get less than a visitor's rate.
//
// An event id is remembered for a day, even if the report adds nothing. A network's anonymous
// clients have an allowance of them; reports beyond it count as if they had none.
//
// Each article's page views and visitors are numbered per UTC day and source. A source is a
// visitor, or all anonymous clients of a network together. A network's first limits.pv_per_network
// count, and after that the n-th only if n is a square. A source's contributions are recorded after
// its first limits.contribution_after. Events are numbered before Redis counts them, since parallel
// reports must not get the same number, and the numbers of reports that added nothing are given
// back.
//
// A network's anonymous readers are counted in the same table: limits.anonymous_per_network of them
// become readers on a day, and a reader counts again after a week. The searches of a network's
// anonymous readers may use 100 ms of CPU time a second, except in mode `open`.
//
// An id that a request claims in mode `open` does not count as signed in, because a client can
// change it at will.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/daily_count_table.h"
#include "core/base/token_bucket_table.h"
#include "core/config/settings.h"
#include "fcgi/gateway/request.h"
#include "fcgi/http/identity.h"

namespace freshet::http {

// The search CPU time that one token pays for; the rest is charged afterwards. At 5 requests a
// second, a visitor has 25 ms of search time a second, and 60 times 5 ms in a burst.
inline constexpr std::chrono::microseconds kSearchTimePerToken{5000};

// The buckets that a route's requests are charged to: none, or one token each.
struct RouteCost {
  std::string_view endpoint = {};  // a literal, part of the buckets' names; empty: free
  TokenBucket LimitSettings::*bucket = nullptr;
  bool creates_keys = false;                  // charge the service bucket as well unless signed in
  std::string_view only_with_parameter = {};  // charge only if the query has this parameter
  bool searches = false;                      // its requests may search the index
};

// The searches of a network's anonymous readers: 100 ms of CPU time a second, and a second of it in
// a burst.
inline constexpr double kNetworkSearchTokensPerSecond = 20;
inline constexpr double kNetworkSearchBurst = 200;

// Unverified articles that a network's clients may create: a bucket that refills in a day.
inline constexpr int kUnverifiedArticlesPerDay = 100;

// The owners of a request's buckets, as hashes.
struct RateLimitSubject {
  std::uint64_t visitor = 0;
  std::uint64_t network = 0;
  bool signed_in = false;
  bool limits_searches = false;  // its network's searches have a bucket of their own
};

enum class BucketKind : std::uint8_t { kVisitor, kNetwork, kService };

// The bucket with the fewest tokens left, or the one that refused.
struct RateLimitStatus {
  bool granted = true;
  BucketKind kind = BucketKind::kVisitor;
  std::int64_t limit = 0, remaining = 0;  // tokens
  seconds reset{0};                       // until the bucket is full
  seconds retry_after{0};                 // if refused: until a retry would be granted
};

// RateLimit-Limit, -Remaining and -Reset.
void add_rate_limit_headers(Response& response, const RateLimitStatus& status);

// Memory shared by a host's workers.
struct LimitTables {
  TokenBucketTable buckets;
  DailyCountTable counts;  // page views by article and source, anonymous readers by network
};

struct PageViewNumber {
  std::uint64_t key = 0;
  std::int64_t day = 0;
  std::uint32_t number = 0;   // 0: not numbered
  bool within_quota = true;   // of limits.pv_per_network
  bool should_record = true;  // its contribution: beyond limits.contribution_after
};

class RateLimiter {
 public:
  // Both must outlive this.
  RateLimiter(LimitTables& tables, const LimitSettings& settings);

  RateLimitSubject subject_for(const Request& request, const AuthResult& verified) const;
  // nullopt: no limit applies. Tokens consumed before another bucket refuses are not returned, so a
  // network that keeps sending while it is refused remains the heaviest. `write_cost`: the tokens
  // that a request that may create keys costs its network, if congestion does not raise them
  // further; ≥ 1. No I/O; under 1 µs.
  std::optional<RateLimitStatus> try_consume(const RouteCost& cost, const RateLimitSubject& subject,
                                             std::int64_t now_us, double write_cost = 1);
  // Charges the visitor and network buckets for search time that the first token does not cover,
  // once it is known, and the network's search bucket for all of it; each may owe up to one full
  // bucket. Returns the tightest of these buckets and `before`.
  std::optional<RateLimitStatus> charge(const RouteCost& cost, const RateLimitSubject& subject,
                                        std::chrono::microseconds search_time,
                                        const std::optional<RateLimitStatus>& before, std::int64_t now_us);

  // True if the network may create another unverified article.
  bool may_create_article(std::string_view network, std::int64_t now_us) const;
  // Consumes one of the allowance, even if none is left.
  void count_created_article(std::string_view network, std::int64_t now_us);

  // Returns true, and counts it, if one more event id of the network's anonymous clients may be
  // remembered for a day: half of `max_kept` at once and half in the course of a day, so that at
  // most max_kept are remembered. No limit if max_kept or limits.network_factor is 0.
  bool may_keep_event_id(std::string_view address, std::int64_t max_kept, std::int64_t now_us);

  // True if something may be stored about the anonymous reader: they became a reader within the
  // last week, or their network's limits.anonymous_per_network allow one more today.
  bool may_store_anonymous(std::string_view reader, std::string_view address, UnixSeconds now);

  // Numbers a page view or visitor of an article. `endpoint`: each has its own numbers. `source`:
  // the name of a visitor or network.
  PageViewNumber number_page_view(std::string_view endpoint, std::string_view source,
                                  std::string_view article, UnixSeconds now);
  // Gives back the number of an event that was neither counted nor refused. A number above the
  // limit can be given back only while it is the last: otherwise clients could shift the numbers of
  // others so that more of them are squares.
  void give_back(const PageViewNumber& page_view);

 private:
  double congestion_cost(std::int64_t now_us) const;

  TokenBucketTable& table_;
  DailyCountTable& counts_;
  const LimitSettings& settings_;
  TokenRate service_{};  // interval 0: no limit
  std::uint64_t service_key_ = 0;
};

// CLOCK_MONOTONIC, which all processes of a host share.
std::int64_t monotonic_us();

}  // namespace freshet::http
