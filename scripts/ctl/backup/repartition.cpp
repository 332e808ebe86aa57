#include "scripts/ctl/backup/repartition.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

#include "core/hot/rebuild.h"
#include "core/recorder/consumer_groups.h"
#include "core/recorder/lease.h"
#include "core/recorder/stream.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "scripts/ctl/backup/partition_mover.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {
namespace {

using redis::PartitionKeys;
using redis::Pipeline;
using Clock = std::chrono::steady_clock;

// Workers renew the rank maintenance lock once a second, with a TTL of
// redis::kRankMaintenanceLockTtl.
constexpr milliseconds kIdlePeriod{1500};
constexpr milliseconds kTimeout{4000};

class Repartitioner {
 public:
  Repartitioner(redis::BlockingRedis& redis, const Settings& settings,
                const std::function<Result<void>(std::int64_t)>& pulse)
      : redis_(redis), settings_(settings), keys_(settings.redis), on_progress_(pulse) {}

  Result<RepartitionResult> run() {
    if (auto ok = require_empty_streams(); !ok) return tl::unexpected(ok.error());
    if (auto ok = send(Pipeline().add("SET", keys_.partition_count_key(), redis::kRepartitioning)); !ok)
      return tl::unexpected(ok.error());
    if (auto ok = create_streams(); !ok) return tl::unexpected(ok.error());
    if (auto ok = for_each_old_key([this](const auto& key) { return copy_key(key); }); !ok)
      return tl::unexpected(ok.error());
    // Delete the lock left by a killed repartition; no other process builds ranks now.
    if (auto ok = send(Pipeline().add("DEL", keys_.rank_rebuild_lock())); !ok)
      return tl::unexpected(ok.error());
    FRESHET_TRY(rebuilt, redis::run_sync(hot::rebuild_ranks(redis_, settings_, keys_)));
    result_.items = rebuilt->items;
    if (auto ok = for_each_old_key([this](const auto& key) { return remove_key(key); }); !ok)
      return tl::unexpected(ok.error());
    Pipeline end;
    end.add("INCR", keys_.epoch()).add("SET", keys_.partition_count_key(), keys_.partition_count());
    if (auto ok = send(end); !ok) return tl::unexpected(ok.error());
    return result_;
  }

 private:
  // Fails if entries are pending in a stream that will be removed. Also finds the highest id of all
  // streams, at which the new ones start: ids of a partition's stream must only grow, even if it is
  // removed and created again (Database::last_entry()).
  Result<void> require_empty_streams() {
    for (unsigned number = 1; number <= redis::kMaxPartitions; number *= 2) {
      Pipeline query;
      const redis::Keys old_keys(settings_.redis.key_prefix, redis::Keys::Topology::kCluster, number);
      for (const PartitionKeys& each : old_keys.partitions())
        query.add("XINFO", "STREAM", each.stream()).add("XLEN", each.stream());
      FRESHET_TRY(replies, redis_.call(query));
      for (std::size_t i = 0; i < replies->size(); i += 2) {
        const redis::Reply& each = (*replies)[i];
        if (each.error() == "ERR no such key") continue;
        if (each.is_error()) return tl::unexpected(redis::classify(each.error()));
        const std::string last(redis::field_value(each, "last-generated-id"));
        if (recorder::precedes(highest_id_, last)) highest_id_ = last;
        if (number == keys_.partition_count() || (*replies)[i + 1].integer() == 0) continue;
        return fail(
            ErrorCode::kConflict, "not_recorded", {},
            fmt::format("entries are pending for the recorder in {} partitions: set redis.partitions to {}, "
                        "start the service, wait until `freshetctl status` shows none, and stop it",
                        number, number));
      }
    }
    return {};
  }

  Result<void> create_streams() {
    if (auto ok = recorder::create_groups(redis_, keys_); !ok) return ok;
    Pipeline set;
    for (const PartitionKeys& each : keys_.partitions()) set.add("XSETID", each.stream(), highest_id_);
    return send(set);
  }

  // Calls the function for each key that belongs to another number of partitions.
  Result<void> for_each_old_key(const std::function<Result<void>(const std::string&)>& handle_key) {
    std::int64_t scanned = 0;
    return scan_all(redis_, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
      scanned += std::ssize(page);
      if (auto proceed = on_progress_(scanned); !proceed) return proceed;
      for (const std::string& key : page) {
        if (!keys_.has_other_partition_count(key)) continue;
        if (auto ok = handle_key(key); !ok) return ok;
      }
      return {};
    });
  }

  Result<void> copy_key(const std::string& key) {
    const std::string name = *keys_.strip_prefix(key);
    if (key_in_partition(name, keys_.partition(0)).empty()) return {};
    const bool is_set = name.starts_with("tag:");
    return scan_all(redis_, is_set ? "SSCAN" : "ZSCAN", key, [&](const std::vector<std::string>& page) {
      return copy_members(key, name, is_set, page);
    });
  }

  Result<void> copy_members(const std::string& key, const std::string& name, bool is_set,
                            const std::vector<std::string>& members) {
    Pipeline query, put;
    if (!is_set) {
      for (const std::string& each : members) query.add("ZSCORE", key, each);
    }
    redis::Replies scores;
    if (!query.empty()) {
      FRESHET_TRY(answered, redis_.call_all(query));
      scores = std::move(*answered);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::string target = key_in_partition(name, keys_.partition_for(members[i]));
      if (is_set)
        put.add("SADD", target, members[i]);
      else if (!scores[i].is_nil())
        put.add("ZADD", target, scores[i].text(), members[i]);
    }
    return put.empty() ? Result<void>() : send(put);
  }

  Result<void> remove_key(const std::string& key) {
    ++result_.removed;
    return send(Pipeline().add("UNLINK", key));
  }

  Result<void> send(const Pipeline& pipeline) {
    FRESHET_TRY(replies, redis_.call_all(pipeline));
    return {};
  }

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys keys_;
  const std::function<Result<void>(std::int64_t)>& on_progress_;
  std::string highest_id_ = "0-0";  // highest entry id of all streams
  RepartitionResult result_;
};

// A rank maintenance lock that is renewed means that a service is running.
Result<void> require_no_service(redis::BlockingRedis& redis, const redis::Keys& keys) {
  const auto runs = [](const std::string& who) {
    return fail(ErrorCode::kConflict, "service_running", {},
                "a service is running" + who + ": stop it and its socket (freshet.socket) first");
  };
  FRESHET_TRY(recorder, recorder::read_lease_owner(redis, keys));
  if (recorder->is_active) return runs(" (recorder: " + recorder->name + ")");
  const auto began = Clock::now();
  for (auto last_seen = began; Clock::now() - last_seen < kIdlePeriod;) {
    FRESHET_TRY(turn, redis.call_all(Pipeline().add("EXISTS", keys.rank_maintenance_lock())));
    if (turn->front().integer().value_or(0) == 1) last_seen = Clock::now();
    if (last_seen - began > kTimeout) return runs("");
    std::this_thread::sleep_for(milliseconds(50));
  }
  return {};
}

}  // namespace

Result<RepartitionResult> repartition(redis::BlockingRedis& redis, const Settings& settings,
                                      const std::function<Result<void>(std::int64_t)>& on_progress) {
  return Repartitioner(redis, settings, on_progress).run();
}

Result<int> run_repartition(const RepartitionOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  if (!settings->redis.is_cluster())
    return fail(ErrorCode::kInvalid, "no_cluster", {},
                "redis.url is not a Redis Cluster; a standalone Redis has one partition");
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings, {"partitions_mismatch"}));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const redis::Keys keys(settings->redis);
  if (auto ok = require_no_service(redis, keys); !ok)
    return tl::unexpected(with_redis_address(ok.error(), *endpoint));
  ProgressLine line(stderr, options.quiet);
  const auto began = ProgressLine::Clock::now();
  const auto done = repartition(redis, *settings, [&](std::int64_t scanned) {
    line.update({scanned, 0, ProgressLine::Clock::now() - began, {}});
    return Result<void>();
  });
  line.clear();
  if (!done) return tl::unexpected(with_redis_address(done.error(), *endpoint));
  const Nanoseconds took = ProgressLine::Clock::now() - began;
  if (options.json) {
    report_json([&](json::Writer& out) {
      out.key("groups").integer(keys.partition_count()).key("items").integer(done->items);
      out.key("removed").integer(done->removed).key("seconds").number(to_seconds(took));
    });
    return 0;
  }
  ctl::print("{} items are in {} partitions, {} old keys removed, in {}\n", format_number(done->items),
             keys.partition_count(), format_number(done->removed), format_duration(took));
  return 0;
}

}  // namespace freshet::ctl
