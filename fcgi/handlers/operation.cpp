#include "fcgi/handlers/operation.h"

#include <algorithm>

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

Response not_ready(std::string why) {
  return http::problem(Error{ErrorCode::kUnavailable, "not_ready", {}, std::move(why)});
}

OperationPages pages(Call& call) { return {call.services.board, call.services.settings}; }

}  // namespace

Response OperationPages::ping() const { return text(settings_.pool.ping_response); }

Response OperationPages::status(const http::Target& target) const {
  const bool full = target.parameter("full").has_value();
  const bool history = target.parameter("history").has_value();
  StatusPage page = status_page(board_, settings_, wall_now(), status_form(target), full, history);
  return text(std::move(page.body), page.content_type);
}

Response OperationPages::metrics() const {
  return text(observe::metrics_text(board_, settings_), observe::kMetricsType);
}

Response OperationPages::live() const { return text("alive\n"); }

Response OperationPages::ready(const Has& has) const {
  std::vector<Dependency> without = missing(has, board_.sample());
  const std::string named = join_dependency_names(without);
  const auto& required = settings_.ready.require;
  const bool serves = std::ranges::none_of(
      without, [&](Dependency each) { return std::ranges::find(required, dependency_name(each)) != required.end(); });
  if (!serves) return not_ready("without " + named);
  const bool writes = std::ranges::find(without, Dependency::kWrites) == without.end();
  std::erase(without, Dependency::kWrites);
  std::string body = writes ? "ready\nwrites:true\n" : "ready\nwrites:false\n";
  if (!without.empty()) body.append("missing:").append(join_dependency_names(without)).append("\n");
  return text(std::move(body));
}

Response OperationPages::pool_ready() const {
  const Totals totals = board_.totals();
  if (totals.ready == 0) return not_ready("no worker serves");
  return ready(has_of(totals));
}

Task<Result<Response>> get_ping(Call& call) { co_return pages(call).ping(); }

Task<Result<Response>> get_status(Call& call) { co_return pages(call).status(call.target); }

Task<Result<Response>> get_metrics(Call& call) { co_return pages(call).metrics(); }

Task<Result<Response>> get_live(Call& call) { co_return pages(call).live(); }

Task<Result<Response>> get_ready(Call& call) {
  const WorkerSlot& slot = call.services.slot;
  co_return pages(call).ready({call.services.redis_ready(), slot.index_documents.load(kRelaxed) > 0,
                               slot.model_trained_at.load(kRelaxed) != 0});
}

}  // namespace freshet::handlers
