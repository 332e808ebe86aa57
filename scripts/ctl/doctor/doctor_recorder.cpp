// The doctor's look at the stream and at the recorder, by what Redis says of both.
#include <fmt/format.h>

#include <algorithm>

#include "core/readers/spool_watch.h"
#include "core/recorder/group.h"
#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/doctor/status_text.h"

namespace freshet::ctl {
namespace {

using redis::Reply;

constexpr milliseconds kLag{60'000};

// Milliseconds of an entry's id, "ms-sequence".
std::int64_t entry_ms(std::string_view id) {
  return redis::parse_or_zero<std::int64_t>(id.substr(0, id.find('-')));
}

void judge_stream(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "recorder.stream";
  if (!facts.stream_length) return out.not_looked(kCheck, "XLEN is not allowed to this user");
  const std::int64_t most = settings.recorder.stream_max_len;
  std::string what = fmt::format("{} of {} entries wait", grouped(*facts.stream_length), grouped(most));
  const redis::Keys keys(settings.redis);
  const std::int64_t part = keys.per_partition(most);
  if (keys.partition_count() > 1)
    what += fmt::format(", {} of {} in one group's stream", grouped(facts.fullest_stream), grouped(part));
  const std::string cure =
      "find out why the recorder does not keep up: `freshetctl status` (recorder reason), the disk of "
      "recorder.database";
  if (facts.fullest_stream >= part) return out.error(kCheck, what + ": writes are refused", cure);
  if (facts.fullest_stream * 2 > part) return out.warn(kCheck, what, cure);
  if (facts.oldest_entry.value_or(milliseconds(0)) > kLag)
    return out.warn(kCheck, fmt::format("{}, one since {} s", what, facts.oldest_entry->count() / 1000),
                    cure);
  out.ok(kCheck, what);
}

void judge_spools(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "spools.hosts";
  if (!facts.last_erasure) return out.ok(kCheck, "nobody was erased yet");
  const std::string at = to_rfc3339(UnixSeconds(std::chrono::floor<seconds>(*facts.last_erasure)));
  if (facts.silent.empty()) return out.ok(kCheck, "every host has answered the last erasure, of " + at);
  std::string names;
  for (const std::string& each : facts.silent) names.append(names.empty() ? "" : ", ").append(each);
  out.warn(kCheck,
           fmt::format(
               "{} has not said since an erasure at {} that nothing waits in its spools; what they hold of "
               "the reader is void",
               names, at),
           fmt::format("start the host, or delete its spools; after {} (spool.max_age) nobody waits for it",
                       span_text(settings.spool.max_age)));
}

void judge_alive(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "recorder.alive";
  if (!facts.recorder) return out.not_looked(kCheck, "HMGET is not allowed to this user");
  if (!facts.has_group)
    return out.error(kCheck, "no recorder has ever read the stream: nothing reaches the database",
                     "start the service with recorder.enabled = true on one host");
  if (facts.recorder->is_active) return out.ok(kCheck, facts.recorder->name + ", records");
  out.error(kCheck,
            facts.recorder->name.empty() ? std::string("nobody records")
                                        : "nobody records; the last was " + facts.recorder->name,
            "journalctl -u freshet; `freshetctl status` tells the recorder's state and reason");
}

}  // namespace

Result<void> ask_recorder(redis::BlockingRedis& redis, const Settings& settings, RedisFacts& facts) {
  const redis::Keys keys(settings.redis);
  redis::Pipeline command;
  command.add("TIME");
  readers::SpoolRegistry(settings.spool, keys).append_read(command);
  constexpr std::size_t kFirst = 2, kOfStream = 3;
  for (const redis::PartitionKeys& each : keys.partitions()) {
    const std::string stream = each.stream();
    command.add("XLEN", stream).add("XRANGE", stream, "-", "+", "COUNT", 1).add("XINFO", "GROUPS", stream);
  }
  FRESHET_TRY(replies, redis.call(command));
  const auto now = time_ms(replies->front());
  facts.has_group = true;
  for (std::size_t at = kFirst; at < replies->size(); at += kOfStream) {
    if (const auto length = (*replies)[at].integer()) {
      facts.stream_length = facts.stream_length.value_or(0) + *length;
      facts.fullest_stream = std::max<std::int64_t>(facts.fullest_stream, *length);
    }
    if (const Reply& oldest = (*replies)[at + 1]; oldest.is_array() && now) {
      const auto id = oldest.size() > 0 ? oldest[0][0].string() : Result<std::string_view>();
      const milliseconds age(oldest.size() > 0 ? *now - entry_ms(id.value_or("")) : 0);
      facts.oldest_entry = std::max(facts.oldest_entry.value_or(age), age);
    }
    facts.has_group &= (*replies)[at + 2].size() > 0;
  }
  const Reply& spools = (*replies)[1];
  facts.last_erasure = readers::last_erasure(spools);
  if (facts.last_erasure) facts.silent = readers::unreported_hosts(spools, *facts.last_erasure);
  const auto recorder = recorder::read_lease_owner(redis, keys);
  if (recorder) facts.recorder = *recorder;
  return {};
}

void judge_recorder(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  judge_stream(facts, settings, out);
  judge_alive(facts, out);
  judge_spools(facts, settings, out);
}

Result<ItemFacts> ask_items(redis::BlockingRedis& redis, database::Database& database, const Settings& settings) {
  constexpr std::size_t kBatch = 500;
  const redis::Keys keys(settings.redis);
  ItemFacts facts;
  FRESHET_TRY(holder, recorder::read_lease_owner(redis, keys));
  if (!holder->database.empty() && holder->database != database.database_id()) facts.belongs_to = holder->name;
  FRESHET_TRY(loss, recorder::recorded_data_loss(redis, keys));
  facts.lost_since = redis::parse_or_zero<std::int64_t>(*loss) / 1000;
  redis::Pipeline look;
  const auto count_missing = [&]() -> Result<void> {
    if (look.empty()) return {};
    FRESHET_TRY(replies, redis.call_all(look));
    for (std::size_t i = 0; i < replies->size(); i += 2)
      facts.missing += (*replies)[i].integer() == 0 && (*replies)[i + 1].is_nil() ? 1 : 0;
    look.clear();
    return {};
  };
  auto read = database.for_each_id([&](std::string_view id) {
    ++facts.items;
    look.add("HEXISTS", keys.item(id), "published_at").add("ZSCORE", keys.partition_for(id).hidden(), id);
    return look.size() < 2 * kBatch ? Result<void>() : count_missing();
  });
  if (read) read = count_missing();
  if (!read) return tl::unexpected(read.error());
  return facts;
}

void judge_items(const ItemFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.items";
  const std::string what = fmt::format("{} of the database's {} items are not in Redis",
                                       grouped(facts.missing), grouped(facts.items));
  if (!facts.belongs_to.empty())
    return out.error(kCheck, "Redis belongs to another database, that of " + facts.belongs_to,
                     "recorder.enabled = false on every host but that one; where this database is to be it: "
                     "freshetctl rebuild-redis --force");
  if (facts.lost_since != 0)
    return out.error(kCheck,
                     fmt::format("Redis lost its data before {}; {}",
                                 to_rfc3339(UnixSeconds{seconds{facts.lost_since}}), what),
                     "freshetctl rebuild-redis; lists say that they are degraded until then");
  if (facts.missing == 0)
    return out.ok(kCheck, fmt::format("all {} items of the database are in Redis", grouped(facts.items)));
  out.error(kCheck, what,
            facts.missing == facts.items ? "freshetctl rebuild-redis" : "freshetctl rebuild-redis --force");
}

}  // namespace freshet::ctl
