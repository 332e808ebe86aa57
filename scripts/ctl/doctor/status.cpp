#include "scripts/ctl/doctor/status.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/hot/rebuild.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"
#include "core/redis/scripts.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/fastcgi_client.h"
#include "scripts/ctl/doctor/sock_diag.h"
#include "scripts/ctl/doctor/status_text.h"

namespace freshet::ctl {
namespace {

constexpr milliseconds kStatusTimeout{3000};

std::string socket_path(const StatusOptions& options, const Target& target, const Settings& settings) {
  if (!options.socket.empty()) return options.socket;
  if (!target.state.empty())
    return (std::filesystem::absolute(target.state) / "run" / "freshetd.sock").string();
  return settings.pool.listen;
}

// Adds the two members to the page's object; null when the kernel does not answer.
std::string append_listen_queue(std::string page, const Result<ListenQueue>& queue) {
  const auto end = page.rfind('}');
  if (end == std::string::npos) return page;
  const std::string waiting = queue ? std::to_string(queue->waiting) : "null";
  const std::string limit = queue ? std::to_string(queue->limit) : "null";
  return page.substr(0, end) + ",\"kernel listen queue\":" + waiting +
         ",\"kernel listen queue len\":" + limit + "}";
}

Result<FastcgiReply> fetch_by_http(const Target& target, const std::string& path) {
  FRESHET_TRY(address, http_address(target));
  HttpClient http(*address, kStatusTimeout);
  auto reply = http.exchange({"GET", path, {}, {}, "freshetctl/" FRESHET_VERSION});
  if (!reply) return tl::unexpected(reply.error());
  return FastcgiReply{reply->status, std::move(reply->body)};
}

// Asks the status process, or the workers if it does not answer.
Result<FastcgiReply> fetch(const Target& target, const Settings& settings, const std::string& path) {
  const bool is_stopped_instance = !target.state.empty() && config_path(target).empty();
  if (!target.base.empty() || is_stopped_instance) return fetch_by_http(target, path);
  if (settings.pool.status_listen.empty()) return fastcgi_get(settings.pool.listen, path, kStatusTimeout);
  auto reply = fastcgi_get(settings.pool.status_listen, path, kStatusTimeout);
  if (reply) return reply;
  auto from_worker = fastcgi_get(settings.pool.listen, path, kStatusTimeout);
  return from_worker ? from_worker : reply;
}

// "ready, writes:true" or the detail of the problem document.
std::string health_text(FastcgiReply reply) {
  if (reply.status != 200) {
    json::Document problem;
    const bool has_detail = problem.parse(reply.body).has_value() && problem.root()["detail"].is_string();
    return "not ready: " + (has_detail ? std::string(problem.root()["detail"].text())
                                       : "status " + std::to_string(reply.status));
  }
  std::string line = reply.body.substr(0, reply.body.find_last_not_of('\n') + 1);
  for (std::size_t at = line.find('\n'); at != std::string::npos; at = line.find('\n', at))
    line.replace(at, 1, ", ");
  return line;
}

Result<int> run_health(const StatusOptions& options, const Target& target, const Settings& settings) {
  FRESHET_TRY(reply, fetch(target, settings, "/health/ready"));
  const bool is_ready = reply->status == 200;
  const std::string text = health_text(*reply);
  if (options.json)
    report_json([&](json::Writer& out) { out.key("ready").boolean(is_ready).key("text").string(text); });
  else
    ctl::print("{}\n", text);
  return is_ready ? 0 : 1;
}

}  // namespace

Result<int> run_status(const StatusOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  if (options.health) return run_health(options, target, *settings);
  const std::string path = settings->pool.status_path + (options.json ? "?json" : "");
  FRESHET_TRY(reply, fetch(target, *settings, path));
  if (reply->status != 200)
    return fail(ErrorCode::kUnavailable, "refused", {}, fmt::format("{} answered {}", path, reply->status));
  const std::string socket = socket_path(options, target, *settings);
  const bool has_queue = socket.starts_with('/');
  if (options.json) {
    print_json_line(has_queue ? append_listen_queue(std::move(reply->body), listen_queue(socket))
                              : reply->body);
    return 0;
  }
  print_text(stdout, status_text(reply->body, wall_now()));
  if (!has_queue) return 0;
  const auto queue = listen_queue(socket);
  // The socket is on another host or not readable: print the rest anyway.
  if (!queue) {
    ctl::print("{:<22}unknown ({})\n", "kernel listen queue:", queue.error().detail);
  } else {
    ctl::print("{:<22}{} of {}\n", "kernel listen queue:", queue->waiting, queue->limit);
  }
  return 0;
}

Result<int> run_rebuild_rank(const RebuildRankOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const redis::Keys keys(settings->redis);
  const auto began = std::chrono::steady_clock::now();
  const auto rebuilt = redis::run_sync(hot::rebuild_ranks(redis, *settings, keys));
  if (!rebuilt) {
    if (rebuilt.error().reason != "rebuild_running")
      return tl::unexpected(with_redis_address(rebuilt.error(), *endpoint));
    return fail(ErrorCode::kConflict, "rebuild_running", {}, "another rebuild is running");
  }
  const Nanoseconds took = std::chrono::steady_clock::now() - began;
  const EngagementSettings& e = settings->engagement;
  if (options.json) {
    report_json([&](json::Writer& out) {
      out.key("items").integer(rebuilt->items).key("ranked").integer(rebuilt->ranked);
      out.key("half_life").integer(e.half_life.count()).key("pv_weight").number(e.pv_weight);
      out.key("uv_weight").number(e.uv_weight).key("dwell_weight").number(e.dwell_weight);
      out.key("seconds").number(to_seconds(took));
    });
    return 0;
  }
  ctl::print("rebuilt hot:rank in {}: {} items with counters, {} ranked (half-life {} s, weights {} {} {})\n",
             format_duration(took), format_number(rebuilt->items), format_number(rebuilt->ranked),
             e.half_life.count(), e.pv_weight, e.uv_weight, e.dwell_weight);
  return 0;
}

}  // namespace freshet::ctl
