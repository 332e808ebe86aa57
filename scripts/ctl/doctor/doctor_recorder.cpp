// Checks the streams and the recorder by their state in Redis.
#include <fmt/format.h>

#include <algorithm>

#include "core/readers/spool_registry.h"
#include "core/recorder/consumer_groups.h"
#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/doctor/status_text.h"

namespace freshet::ctl {
namespace {

using redis::Reply;

constexpr milliseconds kMaxLag{60'000};

// Milliseconds of an entry id, "ms-sequence".
std::int64_t entry_ms(std::string_view id) {
  return redis::parse_or_zero<std::int64_t>(id.substr(0, id.find('-')));
}

void evaluate_stream(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "recorder.stream";
  if (!facts.stream_length) return out.skipped(kCheck, "this user may not run XLEN");
  const std::int64_t limit = settings.recorder.stream_max_len;
  std::string message =
      fmt::format("{} of {} entries pending", format_number(*facts.stream_length), format_number(limit));
  const redis::Keys keys(settings.redis);
  const std::int64_t partition_limit = keys.per_partition(limit);
  if (keys.partition_count() > 1)
    message += fmt::format(", {} of {} in one partition's stream", format_number(facts.longest_stream),
                           format_number(partition_limit));
  const std::string fix =
      "find out why the recorder lags: see `recorder reason` in `freshetctl status`, and check the disk of "
      "recorder.database";
  if (facts.longest_stream >= partition_limit)
    return out.error(kCheck, message + ": writes are refused", fix);
  if (facts.longest_stream * 2 > partition_limit) return out.warn(kCheck, message, fix);
  if (facts.oldest_entry_age.value_or(milliseconds(0)) > kMaxLag)
    return out.warn(
        kCheck, fmt::format("{}, the oldest for {} s", message, facts.oldest_entry_age->count() / 1000), fix);
  out.ok(kCheck, message);
}

void evaluate_spools(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "spools.hosts";
  if (!facts.last_erasure) return out.ok(kCheck, "no reader has been erased yet");
  const std::string at = to_rfc3339(UnixSeconds(std::chrono::floor<seconds>(*facts.last_erasure)));
  if (facts.hosts_pending_erasure.empty())
    return out.ok(kCheck, "every host has confirmed the last erasure, of " + at);
  std::string names;
  for (const std::string& each : facts.hosts_pending_erasure)
    names.append(names.empty() ? "" : ", ").append(each);
  out.warn(kCheck,
           fmt::format("{} has not confirmed the erasure of {}; its spools may still hold events of the "
                       "reader, which will be ignored",
                       names, at),
           fmt::format("start the host or delete its spools; its spools expire after {} (spool.max_age)",
                       span_text(settings.spool.max_age)));
}

void evaluate_recorder_alive(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "recorder.alive";
  if (!facts.recorder) return out.skipped(kCheck, "this user may not run HMGET");
  if (!facts.has_consumer_group)
    return out.error(kCheck, "no recorder has ever read the streams: nothing is written to the database",
                     "start the service with recorder.enabled = true on one host");
  if (facts.recorder->is_active) return out.ok(kCheck, facts.recorder->name + " is recording");
  out.error(kCheck,
            facts.recorder->name.empty() ? std::string("no recorder is running")
                                         : "no recorder is running; the last was " + facts.recorder->name,
            "see `journalctl -u freshet`, and the recorder's state and reason in `freshetctl status`");
}

}  // namespace

Result<void> collect_recorder_facts(redis::BlockingRedis& redis, const Settings& settings,
                                    RedisFacts& facts) {
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
  const auto now = parse_time_ms(replies->front());
  facts.has_consumer_group = true;
  for (std::size_t at = kFirst; at < replies->size(); at += kOfStream) {
    if (const auto length = (*replies)[at].integer()) {
      facts.stream_length = facts.stream_length.value_or(0) + *length;
      facts.longest_stream = std::max<std::int64_t>(facts.longest_stream, *length);
    }
    if (const Reply& oldest = (*replies)[at + 1]; oldest.is_array() && now) {
      const auto id = oldest.size() > 0 ? oldest[0][0].string() : Result<std::string_view>();
      const milliseconds age(oldest.size() > 0 ? *now - entry_ms(id.value_or("")) : 0);
      facts.oldest_entry_age = std::max(facts.oldest_entry_age.value_or(age), age);
    }
    facts.has_consumer_group &= (*replies)[at + 2].size() > 0;
  }
  const Reply& spools = (*replies)[1];
  facts.last_erasure = readers::last_erasure(spools);
  if (facts.last_erasure)
    facts.hosts_pending_erasure = readers::unreported_hosts(spools, *facts.last_erasure);
  const auto recorder = recorder::read_lease_owner(redis, keys);
  if (recorder) facts.recorder = *recorder;
  return {};
}

void evaluate_recorder(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  evaluate_stream(facts, settings, out);
  evaluate_recorder_alive(facts, out);
  evaluate_spools(facts, settings, out);
}

Result<ItemFacts> collect_item_facts(redis::BlockingRedis& redis, database::Database& database,
                                     const Settings& settings) {
  constexpr std::size_t kBatch = 500;
  const redis::Keys keys(settings.redis);
  ItemFacts facts;
  FRESHET_TRY(holder, recorder::read_lease_owner(redis, keys));
  if (!holder->database.empty() && holder->database != database.database_id())
    facts.other_owner = holder->name;
  FRESHET_TRY(loss, recorder::recorded_data_loss(redis, keys));
  facts.data_lost_at = redis::parse_or_zero<std::int64_t>(*loss) / 1000;
  redis::Pipeline query;
  const auto count_missing = [&]() -> Result<void> {
    if (query.empty()) return {};
    FRESHET_TRY(replies, redis.call_all(query));
    for (std::size_t i = 0; i < replies->size(); i += 2)
      facts.missing += (*replies)[i].integer() == 0 && (*replies)[i + 1].is_nil() ? 1 : 0;
    query.clear();
    return {};
  };
  auto read = database.for_each_id([&](std::string_view id) {
    ++facts.items;
    query.add("HEXISTS", keys.item(id), "published_at").add("ZSCORE", keys.partition_for(id).hidden(), id);
    return query.size() < 2 * kBatch ? Result<void>() : count_missing();
  });
  if (read) read = count_missing();
  if (!read) return tl::unexpected(read.error());
  return facts;
}

void evaluate_items(const ItemFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.items";
  const std::string message = fmt::format("{} of the database's {} items are missing in Redis",
                                          format_number(facts.missing), format_number(facts.items));
  if (!facts.other_owner.empty())
    return out.error(kCheck, "Redis belongs to another database, used by " + facts.other_owner,
                     "set recorder.enabled = false on all hosts but that one; to use this database instead, "
                     "run `freshetctl rebuild-redis --force`");
  if (facts.data_lost_at != 0)
    return out.error(kCheck,
                     fmt::format("Redis lost its data before {}; {}",
                                 to_rfc3339(UnixSeconds{seconds{facts.data_lost_at}}), message),
                     "run `freshetctl rebuild-redis`; lists are marked as degraded until then");
  if (facts.missing == 0)
    return out.ok(kCheck,
                  fmt::format("all {} items of the database are in Redis", format_number(facts.items)));
  out.error(kCheck, message,
            facts.missing == facts.items ? "run `freshetctl rebuild-redis`"
                                         : "run `freshetctl rebuild-redis --force`");
}

}  // namespace freshet::ctl
