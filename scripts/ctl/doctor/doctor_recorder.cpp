// The doctor's look at the stream and at the recorder, by what Redis says of both.
#include <fmt/format.h>

#include <algorithm>

#include "core/recorder/group.h"
#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/doctor.h"

namespace freshet::ctl {
namespace {

using redis::Reply;

constexpr milliseconds kRecorderSilent{10'000};  // it asks again every 0.3 s
constexpr milliseconds kLag{60'000};

// Milliseconds of an entry's id, "ms-sequence".
std::int64_t entry_ms(std::string_view id) {
  return redis::parse_or_zero<std::int64_t>(id.substr(0, id.find('-')));
}

void note_idle(milliseconds idle, RedisFacts& facts) {
  facts.recorder_idle = std::min(idle, facts.recorder_idle.value_or(idle));
}

void read_consumers(const Reply& consumers, RedisFacts& facts) {
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const Reply consumer = consumers[i];
    for (std::size_t k = 0; k + 1 < consumer.size(); k += 2) {
      if (consumer[k].string().value_or("") == "idle")
        note_idle(milliseconds(consumer[k + 1].integer().value_or(0)), facts);
    }
  }
}

// Redis before 7.2 counts a consumer as idle while it waits in vain: its connection tells the rest.
void read_clients(std::string_view list, RedisFacts& facts) {
  constexpr std::string_view kIdle = " idle=";
  while (!list.empty()) {
    const std::size_t end = std::min(list.find('\n'), list.size());
    const std::string_view line = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t at = line.find(kIdle);
    if (line.find(" cmd=xreadgroup") == std::string_view::npos || at == std::string_view::npos) continue;
    const std::size_t from = at + kIdle.size();
    const auto idle = redis::parse_or_zero<std::int64_t>(line.substr(from, line.find(' ', from) - from));
    note_idle(seconds(idle), facts);
  }
}

void judge_stream(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "recorder.stream";
  if (!facts.stream_length) return out.not_looked(kCheck, "XLEN is not allowed to this user");
  const std::int64_t most = settings.recorder.stream_max_len;
  const std::string what = fmt::format("{} of {} entries wait", grouped(*facts.stream_length), grouped(most));
  const std::string cure =
      "find out why the recorder does not keep up: `freshetctl status` (recorder reason), the disk of "
      "recorder.database";
  if (*facts.stream_length >= most) return out.error(kCheck, what + ": writes are refused", cure);
  if (*facts.stream_length * 2 > most) return out.warn(kCheck, what, cure);
  if (facts.oldest_entry.value_or(milliseconds(0)) > kLag)
    return out.warn(kCheck, fmt::format("{}, one since {} s", what, facts.oldest_entry->count() / 1000),
                    cure);
  out.ok(kCheck, what);
}

void judge_alive(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "recorder.alive";
  if (!facts.has_group)
    return out.error(kCheck, "no recorder has ever read the stream: nothing reaches the database",
                     "start the service with recorder.enabled = true on one host");
  if (facts.recorder_idle && *facts.recorder_idle <= kRecorderSilent)
    return out.ok(kCheck, "the recorder reads the stream");
  const bool waits = facts.oldest_entry.value_or(milliseconds(0)) > kRecorderSilent;
  if (!facts.clients_shown && !waits)
    return out.not_looked(kCheck, "CLIENT LIST is not allowed to this user, and nothing waits to be read");
  out.error(kCheck,
            facts.recorder_idle
                ? fmt::format("the recorder last read {} s ago", facts.recorder_idle->count() / 1000)
                : std::string("nobody reads the stream"),
            "journalctl -u freshet; `freshetctl status` tells the recorder's state and reason");
}

}  // namespace

Result<void> ask_recorder(redis::SyncRedis& redis, const Settings& settings, RedisFacts& facts) {
  const std::string stream = redis::Keys(settings.redis.key_prefix).stream();
  redis::Pipeline command;
  command.add("XLEN", stream).add("XRANGE", stream, "-", "+", "COUNT", 1).add("TIME");
  command.add("XINFO", "GROUPS", stream)
      .add("XINFO", "CONSUMERS", stream, recorder::kGroup)
      .add("CLIENT", "LIST");
  FRESHET_TRY(replies, redis.call(command));
  if (const auto length = (*replies)[0].integer()) facts.stream_length = *length;
  const auto now = time_ms((*replies)[2]);
  if (const Reply& oldest = (*replies)[1]; oldest.is_array() && now) {
    const auto id = oldest.size() > 0 ? oldest[0][0].string() : Result<std::string_view>();
    facts.oldest_entry = milliseconds(oldest.size() > 0 ? *now - entry_ms(id.value_or("")) : 0);
  }
  facts.has_group = (*replies)[3].size() > 0;
  read_consumers((*replies)[4], facts);
  const auto clients = (*replies)[5].string();
  facts.clients_shown = clients.has_value();
  if (clients) read_clients(*clients, facts);
  return {};
}

void judge_recorder(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  judge_stream(facts, settings, out);
  judge_alive(facts, out);
}

Result<ItemFacts> ask_items(redis::SyncRedis& redis, database::Database& database, const Settings& settings) {
  constexpr std::size_t kBatch = 500;
  const redis::Keys keys(settings.redis.key_prefix);
  ItemFacts facts;
  FRESHET_TRY(loss, recorder::noted_loss(redis, keys));
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
    look.add("HEXISTS", keys.item(id), "published_at").add("ZSCORE", keys.hidden(), id);
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
