// The HTTP interface as a table: one row a route. What a row says is enforced before its handler
// runs.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "core/async/task.h"
#include "fcgi/handlers/services.h"
#include "fcgi/http/limits.h"
#include "fcgi/http/router.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

// One request on its way through a handler.
struct Call {
  Services& services;
  Request& request;  // its body may be consumed
  const http::Target& target;
  const http::Match& match;
  const Result<http::Verified>& verified;
  bool exempt = false;             // clients.allow_file: not limited, and no crawler
  feed::SearchCost searched = {};  // null: it searches nothing

  // Crawlers come through the public server; the internal one's callers are the site's own.
  bool is_bot() const {
    return request.zone == Zone::kPublic && !exempt && services.is_bot(request.user_agent);
  }
  // Errors: as Identity::verify.
  Result<http::Who> who(const http::Claim& claim) const {
    if (!verified) return tl::unexpected(verified.error());
    return services.identity.identify(request, *verified, claim);
  }
  // For its searches: what they cost is charged when it is answered.
  const feed::SearchCost& metered() {
    if (!searched) searched = std::make_shared<std::chrono::microseconds>();
    return searched;
  }
  // What it writes goes to the spool: Redis' room is kept for what the site itself sends.
  bool writes_later() const { return request.zone == Zone::kPublic && services.redis_full(); }
};

// Parse → use-case → render. An error becomes a problem document.
using Handler = Task<Result<Response>> (*)(Call& call);

// Who may send a POST's body unasked: kBeacon routes are called by navigator.sendBeacon, with
// text/plain, from any page. kProbe and kWatcher routes need no signature on the internal server:
// load balancers and supervisors ask the former, monitoring and people's browsers the latter.
enum class Caller : std::uint8_t { kAsked, kBeacon, kProbe, kWatcher };
constexpr bool is_open(Caller caller) { return caller == Caller::kProbe || caller == Caller::kWatcher; }

struct Endpoint {
  Handler handle;
  Caller caller = Caller::kAsked;
  Budget budget = Budget::kRequest;
  http::Cost cost = {};
  constexpr Endpoint(Handler handler, Caller from = Caller::kAsked,  // NOLINT: a bare handler is an endpoint
                     Budget within = Budget::kRequest)
      : handle(handler), caller(from), budget(within) {}
  constexpr Endpoint(Handler handler, const http::Cost& costs, Caller from = Caller::kAsked)
      : handle(handler), caller(from), cost(costs) {}
};
using Route = http::Route<Endpoint>;

// A body limit in the table stands for one of two settings.
inline constexpr std::size_t kBody = 16UL * 1024;            // gateway.max_body_bytes
inline constexpr std::size_t kBulkBody = 8UL * 1024 * 1024;  // gateway.max_bulk_body_bytes

// A route that takes a bulk body has the bulk budget as well.
Budget budget_of(const Route& route);

// Writes what stands at each row of the table, from 1, to the board: "GET /api/hot".
void name_routes(const Settings& settings, Scoreboard& board);

// The table; ping.path and pm.status_path stand where the settings want them. `settings` must
// outlive it.
std::vector<Route> routes(const Settings& settings);

}  // namespace freshet::handlers
