// The HTTP interface as a table, one row per route. What a row says is enforced before its handler
// runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/async/task.h"
#include "fcgi/handlers/services.h"
#include "fcgi/http/known_names.h"
#include "fcgi/http/rate_limiter.h"
#include "fcgi/http/router.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

// A request as its handler sees it.
struct Call {
  Services& services;
  Request& request;  // its body may be consumed
  const http::Target& target;
  const http::Match& match;
  const Result<http::AuthResult>& auth_result;
  std::string_view known_members;  // of a JSON object as body, separated by spaces
  http::NameCheck names;
  std::string_view key_id = {};       // of the internal server's key that signed it; empty: unsigned
  bool is_exempt = false;             // on clients.allow_file: not rate limited, and never a crawler
  feed::SearchCost search_time = {};  // null: no search

  // Crawlers come through the public server only; callers of the internal one belong to the site.
  bool is_bot() const {
    return request.zone == Zone::kPublic && !is_exempt && services.is_bot(request.user_agent);
  }
  // True if rate limits apply to the sender's network.
  bool is_anonymous() const {
    return request.zone == Zone::kPublic && !is_exempt && auth_result && auth_result->reader.empty();
  }
  // With readers.anonymous, the visitor cookie names a reader if no other is known and the request
  // may not claim one. Errors: as Identity::verify.
  Result<http::Principal> identify(const http::ClaimedIdentity& claim) const {
    if (!auth_result) return tl::unexpected(auth_result.error());
    http::Principal principal = services.identity.identify(request, *auth_result, claim);
    if (principal.reader.empty() && auth_result->cookie && services.settings.readers.anonymous &&
        !services.identity.trusts_claims(request.zone))
      principal.reader = anonymous_reader(*auth_result->cookie);
    return principal;
  }
  // False for no reader, and for an anonymous one beyond limits.anonymous_per_network: nothing is
  // stored about them.
  bool may_store(const ReaderId& reader) const {
    return !reader.empty() &&
           (!is_anonymous_reader(reader) || is_exempt ||
            services.rate_limiter.may_store_anonymous(reader.view(), request.remote_addr, wall_now()));
  }
  // Collects the CPU time of the request's searches, which is charged once the handler has
  // finished.
  const feed::SearchCost& search_cost() {
    if (!search_time) search_time = std::make_shared<std::chrono::microseconds>();
    return search_time;
  }
  // True if its writes go to the spool: Redis is nearly full, and the rest is reserved for the
  // site's own writes.
  bool must_spool() const { return request.zone == Zone::kPublic && services.is_redis_full(); }
};

// The reply to a write about a reader who may not be stored.
inline constexpr std::string_view kNotStored = R"({"ok":true,"counted":false})";

// Drops the event id of an anonymous client whose network has used up its allowance of them
// (redis::event_ids_per_network). The report then counts as one without an event id, which is safe:
// its session, fingerprint or reader prevents most repetitions from counting, and the rest count
// within the network's limits.
inline void limit_event_id(const Call& call, EventId& event, std::string_view name) {
  if (event.empty() || !call.is_anonymous()) return;
  const std::int64_t max_kept = redis::event_ids_per_network(call.services.redis_memory());
  const std::int64_t units = redis::event_id_units(name);
  for (std::int64_t unit = 0; unit < units && !event.empty(); ++unit) {
    if (!call.services.rate_limiter.may_keep_event_id(call.request.remote_addr, max_kept,
                                                      http::monotonic_us()))
      event = EventId();
  }
}

// Parse → use case → render. Errors become problem documents.
using Handler = Task<Result<Response>> (*)(Call& call);

// How a route authenticates its callers. kBeacon: public; called by navigator.sendBeacon from any
// page, with text/plain and without a CORS preflight. kAnonymous: public; cookies and tokens are
// ignored. kProbe and kMonitoring need no signature on the internal server: load balancers and
// supervisors call the former, monitoring systems and browsers the latter. kSigned: all others;
// signed on the internal server if keys are configured.
enum class RouteAuth : std::uint8_t { kSigned, kBeacon, kAnonymous, kProbe, kMonitoring };
constexpr bool is_unsigned(RouteAuth auth) {
  return auth == RouteAuth::kProbe || auth == RouteAuth::kMonitoring;
}

struct Endpoint {
  Handler handle;
  RouteAuth auth = RouteAuth::kSigned;
  Budget budget = Budget::kRequest;
  http::RouteCost cost = {};
  constexpr Endpoint(Handler handler,
                     RouteAuth route_auth = RouteAuth::kSigned,  // NOLINT: a bare handler is an endpoint
                     Budget time_budget = Budget::kRequest)
      : handle(handler), auth(route_auth), budget(time_budget) {}
  constexpr Endpoint(Handler handler, const http::RouteCost& route_cost,
                     RouteAuth route_auth = RouteAuth::kSigned)
      : handle(handler), auth(route_auth), cost(route_cost) {}
};
using Route = http::Route<Endpoint>;

// A body limit in the table stands for one of two settings.
inline constexpr std::size_t kStandardBodyLimit = 16UL * 1024;    // gateway.max_body_bytes
inline constexpr std::size_t kBulkBodyLimit = 8UL * 1024 * 1024;  // gateway.max_bulk_body_bytes

// Routes with the bulk body limit have the bulk budget as well.
Budget budget_of(const Route& route);

// Writes the method and path of each row, such as "GET /api/hot", to the scoreboard. Rows count
// from 1.
void publish_route_names(const Settings& settings, Scoreboard& board);

// The table, with ping.path and pm.status_path from the settings, and track.gif if track.pixel is
// set. `settings` must outlive it.
std::vector<Route> route_table(const Settings& settings);

}  // namespace freshet::handlers
