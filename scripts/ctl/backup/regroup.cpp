#include "scripts/ctl/backup/regroup.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

#include "core/hot/rebuild.h"
#include "core/recorder/group.h"
#include "core/recorder/lease.h"
#include "core/recorder/stream.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {
namespace {

using redis::PartitionKeys;
using redis::Pipeline;
using Clock = std::chrono::steady_clock;

// Workers take the turn to look after ranks once a second, for redis::kRankTurnTtl.
constexpr milliseconds kNobody{1500};
constexpr milliseconds kPatience{4000};

// The key of a group that a key of another number of groups is copied into; "" when what it holds
// is made anew.
std::string copied_into(std::string_view plain, const PartitionKeys& group) {
  if (plain == "hot:hidden") return group.hidden();
  if (plain == "hot:newest") return group.newest();
  if (plain == "hot:unlisted") return group.unverified();
  if (const auto tag = after(plain, "tag:")) return group.tagged_items(*tag);
  return {};
}

class Regroup {
 public:
  Regroup(redis::BlockingRedis& redis, const Settings& settings,
          const std::function<Result<void>(std::int64_t)>& pulse)
      : redis_(redis), settings_(settings), keys_(settings.redis), pulse_(pulse) {}

  Result<Regrouped> run() {
    if (auto ok = expect_recorded(); !ok) return tl::unexpected(ok.error());
    if (auto ok = send(Pipeline().add("SET", keys_.partition_count_key(), redis::kRepartitioning)); !ok)
      return tl::unexpected(ok.error());
    if (auto ok = make_streams(); !ok) return tl::unexpected(ok.error());
    if (auto ok = each_of_others([this](const auto& key) { return copy(key); }); !ok)
      return tl::unexpected(ok.error());
    // Nobody else makes ranks: the lock is of a regrouping that was killed.
    if (auto ok = send(Pipeline().add("DEL", keys_.rank_rebuild_lock())); !ok) return tl::unexpected(ok.error());
    FRESHET_TRY(rebuilt, redis::run_sync(hot::rebuild_ranks(redis_, settings_, keys_)));
    done_.items = rebuilt->items;
    if (auto ok = each_of_others([this](const auto& key) { return remove(key); }); !ok)
      return tl::unexpected(ok.error());
    Pipeline end;
    end.add("INCR", keys_.epoch()).add("SET", keys_.partition_count_key(), keys_.partition_count());
    if (auto ok = send(end); !ok) return tl::unexpected(ok.error());
    return done_;
  }

 private:
  // That nothing waits in streams that go. Also learns the highest id that any stream gave, which
  // those that are made begin with: ids of a group's stream only grow, however often it came and
  // went (Database::last_entry()).
  Result<void> expect_recorded() {
    for (unsigned number = 1; number <= redis::kMaxPartitions; number *= 2) {
      Pipeline look;
      const redis::Keys of(settings_.redis.key_prefix, redis::Keys::Topology::kCluster, number);
      for (const PartitionKeys& each : of.partitions())
        look.add("XINFO", "STREAM", each.stream()).add("XLEN", each.stream());
      FRESHET_TRY(found, redis_.call(look));
      for (std::size_t i = 0; i < found->size(); i += 2) {
        const redis::Reply& each = (*found)[i];
        if (each.error() == "ERR no such key") continue;
        if (each.is_error()) return tl::unexpected(redis::classify(each.error()));
        const std::string last(redis::field_value(each, "last-generated-id"));
        if (recorder::precedes(highest_, last)) highest_ = last;
        if (number == keys_.partition_count() || (*found)[i + 1].integer() == 0) continue;
        return fail(
            ErrorCode::kConflict, "not_recorded", {},
            fmt::format("entries wait for the recorder in {} groups: set redis.groups to {}, start the "
                        "service, wait until `freshetctl status` says that none wait, and stop it",
                        number, number));
      }
    }
    return {};
  }

  Result<void> make_streams() {
    if (auto ok = recorder::create_groups(redis_, keys_); !ok) return ok;
    Pipeline set;
    for (const PartitionKeys& each : keys_.partitions()) set.add("XSETID", each.stream(), highest_);
    return send(set);
  }

  // Every key that belongs to a group of another number of groups.
  Result<void> each_of_others(const std::function<Result<void>(const std::string&)>& what) {
    std::int64_t looked_at = 0;
    return walk(redis_, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
      looked_at += std::ssize(found);
      if (auto on = pulse_(looked_at); !on) return on;
      for (const std::string& key : found) {
        if (!keys_.has_other_partition_count(key)) continue;
        if (auto ok = what(key); !ok) return ok;
      }
      return {};
    });
  }

  Result<void> copy(const std::string& key) {
    const std::string plain = *keys_.strip_prefix(key);
    if (copied_into(plain, keys_.partition(0)).empty()) return {};
    const bool is_set = plain.starts_with("tag:");
    return walk(redis_, is_set ? "SSCAN" : "ZSCAN", key, [&](const std::vector<std::string>& found) {
      return copy_members(key, plain, is_set, found);
    });
  }

  Result<void> copy_members(const std::string& key, const std::string& plain, bool is_set,
                            const std::vector<std::string>& found) {
    Pipeline look, put;
    if (!is_set) {
      for (const std::string& each : found) look.add("ZSCORE", key, each);
    }
    redis::Replies scores;
    if (!look.empty()) {
      FRESHET_TRY(answered, redis_.call_all(look));
      scores = std::move(*answered);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string into = copied_into(plain, keys_.partition_for(found[i]));
      if (is_set)
        put.add("SADD", into, found[i]);
      else if (!scores[i].is_nil())
        put.add("ZADD", into, scores[i].text(), found[i]);
    }
    return put.empty() ? Result<void>() : send(put);
  }

  Result<void> remove(const std::string& key) {
    ++done_.removed;
    return send(Pipeline().add("UNLINK", key));
  }

  Result<void> send(const Pipeline& pipeline) {
    FRESHET_TRY(replies, redis_.call_all(pipeline));
    return {};
  }

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys keys_;
  const std::function<Result<void>(std::int64_t)>& pulse_;
  std::string highest_ = "0-0";  // entry of any stream
  Regrouped done_;
};

// Somebody whose turn is renewed serves.
Result<void> expect_nobody(redis::BlockingRedis& redis, const redis::Keys& keys) {
  const auto runs = [](const std::string& who) {
    return fail(ErrorCode::kConflict, "service_runs", {}, "a service runs" + who + ": stop it first");
  };
  FRESHET_TRY(recorder, recorder::read_lease_owner(redis, keys));
  if (recorder->is_active) return runs(", " + recorder->name + " records");
  const auto began = Clock::now();
  for (auto seen = began; Clock::now() - seen < kNobody;) {
    FRESHET_TRY(turn, redis.call_all(Pipeline().add("EXISTS", keys.rank_maintenance_lock())));
    if (turn->front().integer().value_or(0) == 1) seen = Clock::now();
    if (seen - began > kPatience) return runs("");
    std::this_thread::sleep_for(milliseconds(50));
  }
  return {};
}

}  // namespace

Result<Regrouped> regroup(redis::BlockingRedis& redis, const Settings& settings,
                          const std::function<Result<void>(std::int64_t)>& pulse) {
  return Regroup(redis, settings, pulse).run();
}

Result<int> run_regroup(const RegroupOptions& options, const Target& target) {
  FRESHET_TRY(settings, settings_of(target));
  if (!settings->redis.is_cluster())
    return fail(ErrorCode::kInvalid, "no_cluster", {},
                "redis.url names no Redis Cluster: one Redis has one group");
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings, Groups::kAny));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const redis::Keys keys(settings->redis);
  if (auto ok = expect_nobody(redis, keys); !ok) return tl::unexpected(at_redis(ok.error(), *endpoint));
  ProgressLine line(stderr, options.quiet);
  const auto began = ProgressLine::Clock::now();
  const auto done = regroup(redis, *settings, [&](std::int64_t looked_at) {
    line.show({looked_at, 0, ProgressLine::Clock::now() - began, {}});
    return Result<void>();
  });
  line.clear();
  if (!done) return tl::unexpected(at_redis(done.error(), *endpoint));
  const Nanoseconds took = ProgressLine::Clock::now() - began;
  if (options.json) {
    report_json([&](json::Writer& out) {
      out.key("groups").integer(keys.partition_count()).key("items").integer(done->items);
      out.key("removed").integer(done->removed).key("seconds").number(in_seconds(took));
    });
    return 0;
  }
  fmt::print("{} items are in {} groups, {} keys of other groups removed, in {}\n", grouped(done->items),
             keys.partition_count(), grouped(done->removed), in_words(took));
  return 0;
}

}  // namespace freshet::ctl
