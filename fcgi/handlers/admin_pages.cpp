#include "fcgi/handlers/admin_pages.h"

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

Response not_ready(std::string detail) {
  return http::problem(Error{ErrorCode::kUnavailable, "not_ready", {}, std::move(detail)});
}

AdminPages admin_pages(Call& call) { return {call.services.board, call.services.settings}; }

}  // namespace

Response AdminPages::ping() const { return text(settings_.pool.ping_response); }

Response AdminPages::status(const http::Target& target) const {
  const bool full = target.parameter("full").has_value();
  const bool history = target.parameter("history").has_value();
  StatusPage page = status_page(board_, settings_, wall_now(), parse_status_format(target), full, history);
  return text(std::move(page.body), page.content_type);
}

Response AdminPages::metrics() const {
  return text(observe::render_metrics(board_, settings_), observe::kMetricsContentType);
}

Response AdminPages::live() const { return text("alive\n"); }

Response AdminPages::ready(const DependencyState& state) const {
  std::vector<Dependency> missing = missing_dependencies(state, board_.redis_sample());
  const std::string names = join_dependency_names(missing);
  const auto& required = settings_.ready.require;
  const bool is_ready = std::ranges::none_of(missing, [&](Dependency each) {
    return std::ranges::find(required, dependency_name(each)) != required.end();
  });
  if (!is_ready) return not_ready("missing: " + names);
  const bool accepts_writes = std::ranges::find(missing, Dependency::kWrites) == missing.end();
  std::erase(missing, Dependency::kWrites);
  std::string body = accepts_writes ? "ready\nwrites:true\n" : "ready\nwrites:false\n";
  if (!missing.empty()) body.append("missing:").append(join_dependency_names(missing)).append("\n");
  return text(std::move(body));
}

Response AdminPages::pool_ready() const {
  const Totals totals = board_.totals();
  if (totals.ready == 0) return not_ready("no worker is ready");
  return ready(dependency_state(totals));
}

Task<Result<Response>> get_ping(Call& call) { co_return admin_pages(call).ping(); }

Task<Result<Response>> get_status(Call& call) { co_return admin_pages(call).status(call.target); }

Task<Result<Response>> get_metrics(Call& call) { co_return admin_pages(call).metrics(); }

Task<Result<Response>> get_live(Call& call) { co_return admin_pages(call).live(); }

Task<Result<Response>> get_ready(Call& call) {
  const WorkerSlot& slot = call.services.slot;
  co_return admin_pages(call).ready({call.services.is_redis_ready(),
                                     slot.index_documents_plus_one.load(kRelaxed) > 0,
                                     slot.model_trained_at.load(kRelaxed) != 0});
}

}  // namespace freshet::handlers
