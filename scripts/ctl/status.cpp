#include "scripts/ctl/status.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/async/sync_redis.h"
#include "core/store/keys.h"
#include "core/store/rebuild.h"
#include "core/store/scripts.h"
#include "scripts/ctl/progress.h"
#include "scripts/ctl/sock_diag.h"

namespace freshet::ctl {
namespace {

constexpr milliseconds kStatusTimeout{3000};

std::string socket_of(const StatusOptions& options, const Target& target, const Settings& settings) {
  if (!options.socket.empty()) return options.socket;
  if (!target.state.empty()) return (std::filesystem::path(target.state) / "run" / "freshetd.sock").string();
  return settings.pool.listen;
}

}  // namespace

Result<int> run_status(const StatusOptions& options, const Target& target) {
  auto settings = settings_of(target);
  if (!settings) return tl::unexpected(settings.error());
  auto address = http_address(target);
  if (!address) return tl::unexpected(address.error());
  BlockingHttp http(*address, kStatusTimeout);
  const std::string path = settings->pool.status_path + (options.json ? "?json" : "");
  auto reply = http.exchange({"GET", path, {}, {}, "freshetctl/" FRESHET_VERSION});
  if (!reply) return tl::unexpected(reply.error());
  if (reply->status != 200) {
    return fail(ErrorCode::kUnavailable, "refused", {},
                fmt::format("{}{} answered {}", address->shown, path, reply->status));
  }
  fmt::print("{}{}", reply->body, reply->body.ends_with('\n') ? "" : "\n");
  const std::string socket = socket_of(options, target, *settings);
  if (options.json || !socket.starts_with('/')) return 0;
  const auto queue = listen_queue(socket);
  // It runs on another host, or we are not allowed to look: the rest is still worth showing.
  if (!queue) {
    fmt::print("{:<22}unknown ({})\n", "kernel listen queue:", queue.error().detail);
  } else {
    fmt::print("{:<22}{} of {}\n", "kernel listen queue:", queue->waiting, queue->limit);
  }
  return 0;
}

Result<int> run_rebuild_rank(const Target& target) {
  auto settings = settings_of(target);
  if (!settings) return tl::unexpected(settings.error());
  auto endpoint = redis_endpoint(target, *settings);
  if (!endpoint) return tl::unexpected(endpoint.error());
  redis::SyncRedis redis(*endpoint, kRedisTimeout, store::kAllScripts);
  const store::Keys keys(settings->redis.key_prefix, settings->redis.hash_tags);
  const auto began = std::chrono::steady_clock::now();
  const auto rebuilt = redis::wait(store::rebuild_rank(redis, *settings, keys));
  if (!rebuilt) {
    if (rebuilt.error().reason != "rebuild_running")
      return tl::unexpected(at_redis(rebuilt.error(), *endpoint));
    return fail(ErrorCode::kConflict, "rebuild_running", {}, "another rebuild is running");
  }
  const EngagementSettings& e = settings->engagement;
  fmt::print("rebuilt hot:rank in {}: {} items with counters, {} ranked (half-life {} s, weights {} {} {})\n",
             in_words(std::chrono::steady_clock::now() - began), grouped(rebuilt->items),
             grouped(rebuilt->ranked), e.half_life.count(), e.pv_weight, e.uv_weight, e.dwell_weight);
  return 0;
}

}  // namespace freshet::ctl
