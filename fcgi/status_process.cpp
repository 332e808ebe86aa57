#include "fcgi/status_process.h"

#include <array>
#include <csignal>

#include "core/async/event_loop.h"
#include "core/async/signals.h"
#include "core/async/timer.h"
#include "core/base/log.h"
#include "fcgi/gateway/gateway.h"
#include "fcgi/handlers/admin_pages.h"
#include "fcgi/http/internal_guard.h"
#include "fcgi/http/problem.h"
#include "fcgi/http/target.h"

namespace freshet {
namespace {

using handlers::AdminPages;

constexpr std::size_t kMaxInFlight = 64;

class StatusProcess {
 public:
  StatusProcess(const Settings& settings, Scoreboard& board, int listen_fd)
      : settings_(settings),
        pages_(board, settings),
        gateway_(
            loop_, gateway_options(settings),
            [this](Request& request, Response& response) { return serve(request, response); },
            [](const Request&, gateway::RefusalReason, Response& response) {
              response = http::problem(Error{ErrorCode::kUnavailable, "overloaded", {}, {}});
            }),
        signals_(loop_, {SIGTERM, SIGQUIT, SIGINT, SIGUSR1}, [this](int signal) { on_signal(signal); }),
        board_(board),
        sample_timer_(loop_) {
    gateway_.listen(listen_fd);
    record_sample();
  }

  int run() {
    loop_.run();
    return 0;
  }

 private:
  static gateway::GatewayOptions gateway_options(const Settings& settings) {
    gateway::GatewayOptions options;
    options.limits = {settings.gateway.max_params_bytes, settings.gateway.max_body_bytes};
    options.read_timeout = settings.gateway.read_timeout;
    options.write_timeout = settings.gateway.write_timeout;
    options.max_in_flight = kMaxInFlight;
    options.allowed_clients = NetworkSet::parse(settings.pool.listen_allowed_clients).value();
    return options;
  }

  // As in the workers' application, internal paths do not exist for the public server.
  Task<void> serve(Request& request, Response& response) {
    response = answer(request);
    co_return;
  }

  Response answer(const Request& request) const {
    const auto target = http::Target::parse(request.uri);
    if (!target) return http::problem(target.error());
    const std::string_view path = target->path();
    const bool is_known_path =
        !path.empty() && (path == settings_.pool.status_path || path == settings_.pool.ping_path ||
                          path == "/metrics" || path == "/health/live" || path == "/health/ready");
    if (!is_known_path || request.zone != Zone::kInternal) return http::no_such_route();
    const bool is_monitoring = path == settings_.pool.status_path || path == "/metrics";
    const auto allowed = http::check_internal_request(
        request, settings_.http.internal_hosts,
        is_monitoring ? http::InternalResource::kPage : http::InternalResource::kHealth,
        settings_.http.trusts_proxy());
    if (!allowed) return http::problem(allowed.error());
    if (request.method != Method::kGet && request.method != Method::kHead)
      return http::method_not_allowed("GET, HEAD, OPTIONS");
    if (path == settings_.pool.status_path) return pages_.status(*target);
    if (path == settings_.pool.ping_path) return pages_.ping();
    if (path == "/metrics") return pages_.metrics();
    return path == "/health/live" ? pages_.live() : pages_.pool_ready();
  }

  void record_sample() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    board_.history().add(sample_pool(board_, std::chrono::duration_cast<milliseconds>(now)));
    sample_timer_.after(kHistoryInterval, [this] { record_sample(); });
  }

  void on_signal(int signal) {
    if (signal == SIGUSR1) return log::reopen();
    sample_timer_.cancel();
    gateway_.drain(std::chrono::steady_clock::now(), [this] { loop_.stop(); });
  }

  const Settings& settings_;
  AdminPages pages_;
  EventLoop loop_;
  gateway::Gateway gateway_;
  Signals signals_;
  Scoreboard& board_;
  Timer sample_timer_;
};

}  // namespace

int run_status_process(const Settings& settings, Scoreboard& board, int listen_fd) {
  // Never destroyed: the process ends when run() returns.
  auto* process = new StatusProcess(settings, board, listen_fd);
  return process->run();
}

}  // namespace freshet
