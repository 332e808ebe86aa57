// The HTTP interface as a table: one row a route. What a row says is enforced before its handler
// runs.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "core/async/task.h"
#include "fcgi/handlers/services.h"
#include "fcgi/http/rate_limiter.h"
#include "fcgi/http/router.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

// One request on its way through a handler.
struct Call {
  Services& services;
  Request& request;  // its body may be consumed
  const http::Target& target;
  const http::Match& match;
  const Result<http::AuthResult>& auth_result;
  bool is_exempt = false;             // clients.allow_file: not limited, and no crawler
  feed::SearchCost search_time = {};  // null: it searches nothing

  // Crawlers come through the public server; the internal one's callers are the site's own.
  bool is_bot() const {
    return request.zone == Zone::kPublic && !is_exempt && services.is_bot(request.user_agent);
  }
  // Errors: as Identity::verify.
  Result<http::Principal> identify(const http::ClaimedIdentity& claim) const {
    if (!auth_result) return tl::unexpected(auth_result.error());
    return services.identity.identify(request, *auth_result, claim);
  }
  // For its searches: what they cost is charged when it is answered.
  const feed::SearchCost& search_cost() {
    if (!search_time) search_time = std::make_shared<std::chrono::microseconds>();
    return search_time;
  }
  // What it writes goes to the spool: Redis' room is kept for what the site itself sends.
  bool must_spool() const { return request.zone == Zone::kPublic && services.is_redis_full(); }
};

// Parse → use-case → render. An error becomes a problem document.
using Handler = Task<Result<Response>> (*)(Call& call);

// Who may send a POST's body unasked: kBeacon routes are called by navigator.sendBeacon, with
// text/plain, from any page. kProbe and kWatcher routes need no signature on the internal server:
// load balancers and supervisors ask the former, monitoring and people's browsers the latter.
enum class RouteAuth : std::uint8_t { kSigned, kBeacon, kProbe, kMonitoring };
constexpr bool is_unsigned(RouteAuth auth) { return auth == RouteAuth::kProbe || auth == RouteAuth::kMonitoring; }

struct Endpoint {
  Handler handle;
  RouteAuth auth = RouteAuth::kSigned;
  Budget budget = Budget::kRequest;
  http::RouteCost cost = {};
  constexpr Endpoint(Handler handler, RouteAuth route_auth = RouteAuth::kSigned,  // NOLINT: a bare handler is an endpoint
                     Budget time_budget = Budget::kRequest)
      : handle(handler), auth(route_auth), budget(time_budget) {}
  constexpr Endpoint(Handler handler, const http::RouteCost& route_cost, RouteAuth route_auth = RouteAuth::kSigned)
      : handle(handler), auth(route_auth), cost(route_cost) {}
};
using Route = http::Route<Endpoint>;

// A body limit in the table stands for one of two settings.
inline constexpr std::size_t kStandardBodyLimit = 16UL * 1024;            // gateway.max_body_bytes
inline constexpr std::size_t kBulkBodyLimit = 8UL * 1024 * 1024;  // gateway.max_bulk_body_bytes

// A route that takes a bulk body has the bulk budget as well.
Budget budget_of(const Route& route);

// Writes what stands at each row of the table, from 1, to the board: "GET /api/hot".
void publish_route_names(const Settings& settings, Scoreboard& board);

// The table; ping.path and pm.status_path stand where the settings want them. `settings` must
// outlive it.
std::vector<Route> route_table(const Settings& settings);

}  // namespace freshet::handlers
