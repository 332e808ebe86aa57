// Checks Redis' version, role, persistence, memory, latency and clock, and lists unverified
// articles.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include "core/hot/article.h"
#include "core/redis/fields.h"
#include "core/redis/memory_level.h"
#include "core/redis/schema.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/doctor.h"

namespace freshet::ctl {
namespace {

using redis::Pipeline;
using redis::Reply;

constexpr int kPings = 20;
constexpr std::array kDirectives{"appendonly", "appendfsync", "maxmemory-policy", "maxmemory",
                                 "min-replicas-to-write"};
constexpr milliseconds kClockWarning{1000}, kClockError{5000};
constexpr double kMemoryFull = 0.8;  // same as the alert FreshetRedisFilling

std::string_view value(const std::map<std::string, std::string, std::less<>>& from, std::string_view name) {
  const auto found = from.find(name);
  return found == from.end() ? std::string_view() : std::string_view(found->second);
}

// Parses "name:value" lines; lines that start with '#' are headings.
void read_info(std::string_view text, RedisFacts& facts) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 2, text.size()));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && !line.starts_with('#'))
      facts.info.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
}

std::int64_t now_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

Result<void> time_pings(redis::BlockingRedis& redis, RedisFacts& facts) {
  using Clock = std::chrono::steady_clock;
  Pipeline ping;
  ping.add("PING");
  std::array<Clock::duration, kPings> spans{};
  for (auto& span : spans) {
    const auto began = Clock::now();
    FRESHET_TRY(reply, redis.call(ping));
    span = Clock::now() - began;
  }
  std::ranges::nth_element(spans, spans.begin() + kPings / 2);
  facts.ping = std::chrono::ceil<milliseconds>(spans[kPings / 2]);
  return {};
}

// Considers the 1,000 articles most recently read by a new network.
Result<void> collect_unverified(redis::BlockingRedis& redis, const Settings& settings, RedisFacts& facts) {
  constexpr unsigned kNewest = 1000;
  constexpr std::size_t kShown = 10;
  const redis::Keys keys(settings.redis);
  Pipeline newest;
  for (const redis::PartitionKeys& each : keys.partitions())
    newest.add("ZCOUNT", each.unverified(), now_ms() / 1000, "+inf");
  for (const redis::PartitionKeys& each : keys.partitions())
    newest.add("ZREVRANGEBYSCORE", each.unverified(), "+inf", now_ms() / 1000, "LIMIT", 0,
               kNewest / keys.partition_count());
  FRESHET_TRY(newest_ids, redis.call(newest));
  Pipeline query;
  std::vector<std::string_view> ids;
  for (std::size_t partition = 0; partition < keys.partition_count(); ++partition) {
    facts.unverified_count += (*newest_ids)[partition].integer().value_or(0);
    const redis::Reply& page = (*newest_ids)[keys.partition_count() + partition];
    for (std::size_t i = 0; i < page.size(); ++i) ids.push_back(redis::string_at(page, i));
  }
  for (const std::string_view id : ids) hot::append_article_read(query, keys, id);
  if (query.empty()) return {};
  FRESHET_TRY(replies, redis.call(query));
  std::vector<std::pair<std::int64_t, std::string>> by_networks;  // one report or view per network
  for (std::size_t i = 0; i < replies->size(); ++i) {
    const hot::Article article =
        hot::parse_article((*replies)[i], UnixSeconds{seconds{now_ms() / 1000}}, settings);
    if (!article.listed) by_networks.emplace_back(article.counts.pv + article.views, ids[i]);
  }
  std::ranges::stable_sort(by_networks, std::greater(), &std::pair<std::int64_t, std::string>::first);
  if (by_networks.size() > kShown) by_networks.resize(kShown);
  for (auto& [networks, id] : by_networks) facts.most_read_unverified.push_back(std::move(id));
  return {};
}

void evaluate_unverified(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "items.unlisted";
  if (settings.items_unknown == "list")
    return out.warn(kCheck,
                    "items.unknown is \"list\": anonymous clients can put arbitrary text on public lists",
                    "PUT the articles and set items.unknown = \"count\", if possible");
  if (facts.most_read_unverified.empty()) return out.ok(kCheck, "no unverified article is being read");
  out.warn(kCheck,
           fmt::format("{} unverified articles are read but not listed; the most read: {}",
                       format_number(facts.unverified_count), fmt::join(facts.most_read_unverified, ", ")),
           "PUT them (freshetctl import) or report events through the internal server; a site that only has "
           "beacons can set items.unknown = \"list\"");
}

void evaluate_version(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.version";
  if (facts.server.empty()) return out.skipped(kCheck, "this user may not run INFO");
  if (facts.unsupported.empty()) return out.ok(kCheck, facts.server);
  out.error(kCheck, facts.unsupported, "install Redis 7.0 or later, or Valkey");
}

void evaluate_role(const RedisFacts& facts, Diagnoses& out) {
  if (value(facts.info, "role") == "slave")
    out.error("redis.role", "redis.url is a replica, which rejects writes", "set redis.url to the master");
}

// A failover loses what the old master acknowledged but had not replicated. A partitioned master
// keeps acknowledging writes unless it requires a replica.
void evaluate_failover(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.failover";
  if (settings.redis.sentinels.empty()) return;
  if (settings.redis.sentinels.size() < 3)
    out.warn(kCheck, "fewer than three sentinels: after losing one host, no new master can be elected",
             "set redis.sentinels to three or more on different hosts");
  const std::string_view min_replicas = value(facts.directives, "min-replicas-to-write");
  if (min_replicas.empty()) return out.skipped(kCheck, "this user may not run CONFIG GET");
  if (min_replicas == "0")
    return out.warn(
        kCheck,
        "min-replicas-to-write is 0: a replaced or isolated master keeps acknowledging events that the "
        "failover loses",
        "set `min-replicas-to-write 1` and `min-replicas-max-lag 2` in redis.conf of every server");
  out.ok(kCheck, "a master without a replica rejects writes");
}

void evaluate_persistence(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.persistence";
  std::string_view appendonly = value(facts.directives, "appendonly");
  if (appendonly.empty() && !facts.info.empty())
    appendonly = value(facts.info, "aof_enabled") == "1" ? "yes" : "no";
  const std::string_view fsync = value(facts.directives, "appendfsync");
  if (appendonly.empty()) return out.skipped(kCheck, "this user may run neither CONFIG GET nor INFO");
  if (appendonly != "yes")
    return out.error(kCheck, "appendonly is off: a Redis crash loses acknowledged writes",
                     "set `appendonly yes` and `appendfsync everysec` in redis.conf; apply it now with "
                     "`redis-cli CONFIG SET appendonly yes`");
  for (const std::string_view outcome : {"aof_last_write_status", "aof_last_bgrewrite_status"}) {
    if (value(facts.info, outcome) == "err")
      return out.error(kCheck, fmt::format("{} is err: Redis could not write its file", outcome),
                       "check the disk of Redis' `dir` and Redis' log; writes fail (MISCONF) until it can");
  }
  if (fsync == "no")
    return out.warn(kCheck, "appendfsync is no: a power failure loses up to 30 s of writes instead of 1 s",
                    "set `appendfsync everysec` in redis.conf");
  if (fsync == "always")
    return out.warn(kCheck, "appendfsync is always: every write waits for the disk",
                    "set `appendfsync everysec` in redis.conf, unless losing one second is unacceptable");
  out.ok(kCheck, fmt::format("append-only file, fsync {}", fsync.empty() ? "unknown" : fsync));
}

void evaluate_memory(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.eviction";
  std::string_view policy = value(facts.directives, "maxmemory-policy");
  if (policy.empty()) policy = value(facts.info, "maxmemory_policy");
  if (policy.empty()) return out.skipped(kCheck, "this user may run neither CONFIG GET nor INFO");
  const auto limit = redis::parse_or_zero<std::int64_t>(value(facts.info, "maxmemory"));
  const auto used = redis::parse_or_zero<std::int64_t>(value(facts.info, "used_memory"));
  const std::string fix = "set `maxmemory-policy noeviction` in redis.conf and with `redis-cli CONFIG SET`";
  if (policy == "noeviction") {
    out.ok(kCheck, "maxmemory-policy noeviction");
  } else if (limit > 0) {
    out.error(kCheck,
              fmt::format("maxmemory-policy {}: keys are evicted once {} bytes are used", policy,
                          format_number(limit)),
              fix);
  } else {
    out.warn(kCheck, fmt::format("maxmemory-policy {}: keys would be evicted once maxmemory is set", policy),
             fix);
  }
  const std::string fix_memory = "raise maxmemory, or lower list.max_members and the TTLs";
  const double share = limit > 0 ? static_cast<double>(used) / static_cast<double>(limit) : 0;
  const std::string usage = fmt::format("{} of {} bytes are used", format_number(used), format_number(limit));
  if (used == 0)
    out.skipped("redis.memory", "this user may not run INFO");
  else if (limit == 0)
    out.warn("redis.memory", "maxmemory is not set: public writes can use up the host's memory",
             "set `maxmemory` in redis.conf and with `redis-cli CONFIG SET`");
  else if (share >= redis::kFullUsage)
    out.error("redis.memory", usage + ": public writes are queued in the spool", fix_memory);
  else if (share >= kMemoryFull)
    out.warn("redis.memory", usage, fix_memory);
  else
    out.ok("redis.memory", usage);
}

void evaluate_latency(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.latency";
  if (!facts.ping) return;
  const std::string message = fmt::format("PING takes {} ms (median), redis.timeout is {} ms",
                                          facts.ping->count(), settings.redis.timeout.count());
  const std::string fix =
      "check `redis-cli --latency`, SLOWLOG GET, swapping and the network; raising redis.timeout only hides "
      "the problem";
  if (*facts.ping * 2 > settings.redis.timeout) return out.error(kCheck, message, fix);
  if (*facts.ping * 10 > settings.redis.timeout) return out.warn(kCheck, message, fix);
  out.ok(kCheck, message);
}

void evaluate_clock(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.clock";
  if (!facts.clock_offset) return;
  const auto off = std::chrono::abs(*facts.clock_offset);
  const std::string message = fmt::format("the clock of Redis' host is {} ms {} this host's", off.count(),
                                          facts.clock_offset->count() < 0 ? "behind" : "ahead of");
  const std::string fix =
      "run an NTP client (systemd-timesyncd, chrony) on both hosts; check with `timedatectl`";
  if (off > kClockError) return out.error(kCheck, message, fix);
  if (off > kClockWarning) return out.warn(kCheck, message, fix);
  out.ok(kCheck, message);
}

}  // namespace

std::optional<std::int64_t> parse_time_ms(const Reply& reply) {
  if (reply.size() != 2) return std::nullopt;
  return reply[0].integer().value_or(0) * 1000 + reply[1].integer().value_or(0) / 1000;
}

Result<RedisFacts> collect_redis_facts(redis::BlockingRedis& redis, const Settings& settings) {
  RedisFacts facts;
  if (auto ok = time_pings(redis, facts); !ok) return tl::unexpected(ok.error());
  Pipeline command;
  command.add("TIME").add("INFO");
  for (const char* const name : kDirectives) command.add("CONFIG", "GET", name);
  const std::int64_t before = now_ms();
  FRESHET_TRY(replies, redis.call(command));
  const std::int64_t middle = before + (now_ms() - before) / 2;
  if (const auto theirs = parse_time_ms((*replies)[0])) facts.clock_offset = milliseconds(*theirs - middle);
  if (const auto info = (*replies)[1].string()) {
    read_info(*info, facts);
    facts.server = redis::server_name(*info);
    const auto supported = redis::check_server_version(*info);
    if (!supported) facts.unsupported = supported.error().detail;
  }
  for (std::size_t i = 0; i < kDirectives.size(); ++i) {
    const Reply& reply = (*replies)[2 + i];
    if (reply.size() == 2) facts.directives.emplace(kDirectives.at(i), reply[1].string().value_or(""));
  }
  if (auto ok = collect_unverified(redis, settings, facts); !ok) return tl::unexpected(ok.error());
  if (auto ok = collect_recorder_facts(redis, settings, facts); !ok) return tl::unexpected(ok.error());
  return facts;
}

void evaluate_redis(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  evaluate_version(facts, out);
  evaluate_role(facts, out);
  evaluate_failover(facts, settings, out);
  evaluate_persistence(facts, out);
  evaluate_memory(facts, out);
  evaluate_latency(facts, settings, out);
  evaluate_clock(facts, out);
  evaluate_unverified(facts, settings, out);
  evaluate_recorder(facts, settings, out);
}

}  // namespace freshet::ctl
