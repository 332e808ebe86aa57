#include "fcgi/handlers/operation.h"

#include "fcgi/handlers/status.h"
#include "fcgi/http/problem.h"
#include "fcgi/observe/metrics.h"

namespace freshet::handlers {

namespace {

Response text(std::string body, std::string_view content_type = "text/plain; charset=utf-8") {
  Response response;
  response.content_type = content_type;
  response.headers = "Cache-Control: no-store\r\n";
  response.body = std::move(body);
  return response;
}

OperationPages pages(Call& call) { return {call.services.board, call.services.settings}; }

}  // namespace

Response OperationPages::ping() const { return text(settings_.pool.ping_response); }

Response OperationPages::status(const http::Target& target) const {
  const bool full = target.parameter("full").has_value();
  StatusPage page = status_page(board_, settings_, wall_now(), status_form(target), full);
  return text(std::move(page.body), page.content_type);
}

Response OperationPages::metrics() const {
  return text(observe::metrics_text(board_, settings_), observe::kMetricsType);
}

Response OperationPages::live() const { return text("alive\n"); }

Response OperationPages::ready(bool is_ready) const {
  if (is_ready) return text(board_.sample().full.load() ? "ready\nwrites:false\n" : "ready\nwrites:true\n");
  return http::problem(Error{ErrorCode::kUnavailable, "redis_away", {}, {}});
}

bool OperationPages::pool_ready() const {
  const Totals totals = board_.totals();
  return totals.ready > 0 && totals.redis_ready > 0;
}

Task<Result<Response>> get_ping(Call& call) { co_return pages(call).ping(); }

Task<Result<Response>> get_status(Call& call) { co_return pages(call).status(call.target); }

Task<Result<Response>> get_metrics(Call& call) { co_return pages(call).metrics(); }

Task<Result<Response>> get_live(Call& call) { co_return pages(call).live(); }

Task<Result<Response>> get_ready(Call& call) {
  if (!call.services.redis_ready()) co_return fail(ErrorCode::kUnavailable, "redis_away");
  co_return pages(call).ready(true);
}

}  // namespace freshet::handlers
