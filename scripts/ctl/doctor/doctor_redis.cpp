// The doctor's questions to Redis.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include "core/hot/article.h"
#include "core/redis/fields.h"
#include "core/redis/memory_level.h"
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
constexpr double kMemoryFull = 0.8;  // as the alert FreshetRedisFilling

std::string_view value(const std::map<std::string, std::string, std::less<>>& from, std::string_view name) {
  const auto found = from.find(name);
  return found == from.end() ? std::string_view() : std::string_view(found->second);
}

// "name:value" lines; what begins with '#' is a heading.
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

// Of the thousand that a new network read last.
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
  for (std::size_t group = 0; group < keys.partition_count(); ++group) {
    facts.unverified_count += (*newest_ids)[group].integer().value_or(0);
    const redis::Reply& page = (*newest_ids)[keys.partition_count() + group];
    for (std::size_t i = 0; i < page.size(); ++i) ids.push_back(redis::string_at(page, i));
  }
  for (const std::string_view id : ids) hot::append_article_read(query, keys, id);
  if (query.empty()) return {};
  FRESHET_TRY(replies, redis.call(query));
  std::vector<std::pair<std::int64_t, std::string>> by_networks;  // a network counts once, a report or a view
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
    return out.warn(kCheck, "items.unknown is list: anybody can put any text on a public list",
                    "PUT the articles and set items.unknown = \"count\", if the site can");
  if (facts.most_read_unverified.empty()) return out.ok(kCheck, "no article is read that nobody vouched for");
  out.warn(
      kCheck,
      fmt::format("{} articles are read and on no list, since nobody vouched for them; the most read: {}",
                  format_number(facts.unverified_count), fmt::join(facts.most_read_unverified, ", ")),
      "PUT them (freshetctl import), or report through the internal server; a site that has nothing but "
      "beacons sets items.unknown = \"list\"");
}

void evaluate_version(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.version";
  const std::string_view version = value(facts.info, "redis_version");
  if (version.empty()) return out.skipped(kCheck, "INFO is not allowed to this user");
  const auto dot = std::min(version.find('.'), version.size() - 1);
  const int major = redis::parse_or_zero<int>(version.substr(0, dot));
  const int minor = redis::parse_or_zero<int>(version.substr(dot + 1, version.find('.', dot + 1) - dot - 1));
  if (major > 6 || (major == 6 && minor >= 2)) return out.ok(kCheck, fmt::format("Redis {}", version));
  out.error(kCheck, fmt::format("Redis {} has no ZMSCORE, ZINTER, XAUTOCLAIM and GETEX", version),
            "install Redis 6.2 or later");
}

void evaluate_role(const RedisFacts& facts, Diagnoses& out) {
  if (value(facts.info, "role") == "slave")
    out.error("redis.role", "redis.url leads to a replica, which takes no writes",
              "name the master in redis.url");
}

// A failover loses what the old master acknowledged and had not sent to the new one. A master that
// is cut off goes on acknowledging until it is reached, unless it must have a replica.
void evaluate_failover(const RedisFacts& facts, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.failover";
  if (settings.redis.sentinels.empty()) return;
  if (settings.redis.sentinels.size() < 3)
    out.warn(kCheck, "fewer than three sentinels: when the host of one is lost, no new master can be chosen",
             "name three or more, on different hosts, in redis.sentinels");
  const std::string_view min_replicas = value(facts.directives, "min-replicas-to-write");
  if (min_replicas.empty()) return out.skipped(kCheck, "CONFIG GET is not allowed to this user");
  if (min_replicas == "0")
    return out.warn(
        kCheck,
        "min-replicas-to-write is 0: a master that was voted out, or whose replicas are gone, goes on "
        "acknowledging events that a failover loses",
        "`min-replicas-to-write 1` and `min-replicas-max-lag 2` in redis.conf of every server");
  out.ok(kCheck, "a master without a replica takes no writes");
}

void evaluate_persistence(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.persistence";
  std::string_view appendonly = value(facts.directives, "appendonly");
  if (appendonly.empty() && !facts.info.empty())
    appendonly = value(facts.info, "aof_enabled") == "1" ? "yes" : "no";
  const std::string_view fsync = value(facts.directives, "appendfsync");
  if (appendonly.empty())
    return out.skipped(kCheck, "neither CONFIG GET nor INFO is allowed to this user");
  if (appendonly != "yes")
    return out.error(
        kCheck, "appendonly is off: a crash of Redis loses what was acknowledged",
        "`appendonly yes` and `appendfsync everysec` in redis.conf; at once: redis-cli CONFIG SET "
        "appendonly yes");
  for (const std::string_view outcome : {"aof_last_write_status", "aof_last_bgrewrite_status"}) {
    if (value(facts.info, outcome) == "err")
      return out.error(kCheck, fmt::format("{} is err: Redis could not write its file", outcome),
                       "look at the disk of Redis' `dir` and at its log; writes are refused (MISCONF) until "
                       "it can");
  }
  if (fsync == "no")
    return out.warn(kCheck, "appendfsync is no: a power cut loses up to half a minute, not one second",
                    "`appendfsync everysec` in redis.conf");
  if (fsync == "always")
    return out.warn(kCheck, "appendfsync is always: every write waits for the disk",
                    "`appendfsync everysec` in redis.conf, unless a lost second is too much");
  out.ok(kCheck, fmt::format("append-only file, fsync {}", fsync.empty() ? "not shown" : fsync));
}

void evaluate_memory(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.eviction";
  std::string_view policy = value(facts.directives, "maxmemory-policy");
  if (policy.empty()) policy = value(facts.info, "maxmemory_policy");
  if (policy.empty()) return out.skipped(kCheck, "neither CONFIG GET nor INFO is allowed to this user");
  const auto limit = redis::parse_or_zero<std::int64_t>(value(facts.info, "maxmemory"));
  const auto used = redis::parse_or_zero<std::int64_t>(value(facts.info, "used_memory"));
  const std::string fix = "`maxmemory-policy noeviction` in redis.conf, and redis-cli CONFIG SET the same";
  if (policy == "noeviction") {
    out.ok(kCheck, "maxmemory-policy noeviction");
  } else if (limit > 0) {
    out.error(kCheck,
              fmt::format("maxmemory-policy {}: keys go when {} bytes are full", policy, format_number(limit)),
              fix);
  } else {
    out.warn(kCheck, fmt::format("maxmemory-policy {}: keys would go once maxmemory is set", policy), fix);
  }
  const std::string fix_memory = "raise maxmemory, or lower list.max_members and the TTLs";
  const double share = limit > 0 ? static_cast<double>(used) / static_cast<double>(limit) : 0;
  const std::string usage = fmt::format("{} of {} bytes are used", format_number(used), format_number(limit));
  if (used == 0)
    out.skipped("redis.memory", "INFO is not allowed to this user");
  else if (limit == 0)
    out.warn("redis.memory",
             "maxmemory is not set: the public's writes go on until the host has no memory left",
             "`maxmemory` in redis.conf, and redis-cli CONFIG SET the same");
  else if (share >= redis::kFullUsage)
    out.error("redis.memory", usage + ": what the public writes waits in the spool", fix_memory);
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
      "look at redis-cli --latency and SLOWLOG GET, at swapping, and at the network between; raising "
      "redis.timeout only hides it";
  if (*facts.ping * 2 > settings.redis.timeout) return out.error(kCheck, message, fix);
  if (*facts.ping * 10 > settings.redis.timeout) return out.warn(kCheck, message, fix);
  out.ok(kCheck, message);
}

void evaluate_clock(const RedisFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.clock";
  if (!facts.clock_offset) return;
  const auto off = std::chrono::abs(*facts.clock_offset);
  const std::string message = fmt::format("the clock of Redis' host is {} ms {} ours", off.count(),
                                       facts.clock_offset->count() < 0 ? "behind" : "ahead of");
  const std::string fix = "run an NTP client (systemd-timesyncd, chrony) on both hosts: timedatectl";
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
  if (const auto info = (*replies)[1].string()) read_info(*info, facts);
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
