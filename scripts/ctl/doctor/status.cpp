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

}  // namespace

Result<int> run_status(const StatusOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(address, http_address(target));
  BlockingHttp http(*address, kStatusTimeout);
  const std::string path = settings->pool.status_path + (options.json ? "?json" : "");
  auto reply = http.exchange({"GET", path, {}, {}, "freshetctl/" FRESHET_VERSION});
  if (!reply) return tl::unexpected(reply.error());
  if (reply->status != 200) {
    return fail(ErrorCode::kUnavailable, "refused", {},
                fmt::format("{}{} answered {}", address->display_url, path, reply->status));
  }
  const std::string socket = socket_path(options, target, *settings);
  const bool has_queue = socket.starts_with('/');
  const auto queue = listen_queue(socket);
  if (options.json) {
    print_json_line(has_queue ? append_listen_queue(std::move(reply->body), queue) : reply->body);
    return 0;
  }
  print_text(stdout, status_text(reply->body, wall_now()));
  if (!has_queue) return 0;
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
