// Checks a Redis account, such as the service's: rights it lacks, and rights it does not need.
//
// Each command is queued in a transaction that is never executed. Redis answers NOPERM at once when
// the account may not send it; this works in every version and needs no right to read ACLs. The
// queued commands are dropped with the connection. Refusals appear in ACL LOG.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "core/redis/keys.h"
#include "scripts/ctl/doctor/doctor.h"

namespace freshet::ctl {
namespace {

using redis::Pipeline;

// Commands the service sends, as systemd/redis-acl.conf allows them. K: a key, C: the channel.
constexpr std::array kRequiredCommands{
    // connection, scripts, channel
    "PING", "SELECT 0", "ASKING", "CLUSTER SLOTS", "TIME", "ROLE", "DBSIZE", "SCAN 0", "COMMAND INFO get",
    "INFO memory", "SCRIPT LOAD return", "EVALSHA 0000000000000000000000000000000000000000 1 K",
    "PUBLISH C x", "SUBSCRIBE C",
    // any key
    "EXISTS K", "TYPE K", "TTL K", "PTTL K", "DEL K", "UNLINK K", "EXPIRE K 1", "PEXPIRE K 1", "EXPIREAT K 1",
    "RENAME K K",
    // strings and HyperLogLogs
    "GET K", "GETEX K", "SET K x", "APPEND K x", "MGET K", "INCR K", "PERSIST K", "SPOP K", "STRLEN K",
    "PFADD K", "PFCOUNT K",
    // hashes
    "HGET K x", "HSET K x y", "HDEL K x", "HMGET K x", "HGETALL K", "HKEYS K", "HLEN K", "HRANDFIELD K",
    "HEXISTS K x", "HINCRBY K x 1", "HINCRBYFLOAT K x 1",
    // lists
    "LINSERT K BEFORE x y", "LLEN K", "LPOP K", "LPUSH K x", "LRANGE K 0 1", "LREM K 0 x", "LTRIM K 0 1",
    "RPUSH K x",
    // sets
    "SADD K x", "SCARD K", "SMEMBERS K", "SISMEMBER K x", "SMISMEMBER K x", "SREM K x",
    // sorted sets
    "ZADD K 1 x", "ZCARD K", "ZCOUNT K 0 1", "ZMSCORE K x", "ZRANGE K 0 1", "ZRANGEBYSCORE K 0 1", "ZREM K x",
    "ZREMRANGEBYRANK K 0 1", "ZREMRANGEBYSCORE K 0 1", "ZREVRANGE K 0 1", "ZREVRANGEBYSCORE K 1 0",
    "ZREVRANK K x", "ZSCAN K 0", "ZSCORE K x",
    // streams
    "XADD K * x y", "XLEN K", "XRANGE K - +", "XTRIM K MAXLEN 1", "XACK K x 0", "XPENDING K x",
    "XREADGROUP GROUP x x STREAMS K >", "XAUTOCLAIM K x x 0 0", "XGROUP CREATE K x 0", "XINFO STREAM K",
    "XINFO GROUPS K"};

// Commands the service never needs. Each has wrong arguments or is harmless, so it would do nothing
// even if executed.
constexpr std::array kUnneededCommands{"FLUSHALL x x",        "FLUSHDB x x",
                                       "SWAPDB x x",          "REPLICAOF x x",
                                       "KEYS freshet-doctor", "CONFIG SET freshet-doctor x",
                                       "SCRIPT KILL",         "ACL DELUSER freshet-doctor",
                                       "CLIENT KILL x",       "EVAL return 0"};
constexpr std::string_view kForeignKey = "freshet-doctor:none-of-ours";

void append_command(std::string_view line, const std::string& key, const std::string& channel, Pipeline& to) {
  std::istringstream words{std::string(line)};
  std::vector<std::string> parts;
  for (std::string word; words >> word;) parts.push_back(word == "K" ? key : word == "C" ? channel : word);
  to.command(parts.size());
  for (const std::string& each : parts) to.arg(each);
}

// "ZADD", or "XGROUP CREATE" for commands with subcommands.
std::string command_name(std::string_view line) {
  constexpr std::array kInParts{"COMMAND", "CLUSTER", "SCRIPT", "XGROUP", "XINFO", "CONFIG", "ACL", "CLIENT"};
  const std::size_t space = std::min(line.find(' '), line.size());
  const bool in_parts = std::ranges::count(kInParts, line.substr(0, space)) > 0;
  return std::string(line.substr(0, in_parts ? std::min(line.find(' ', space + 1), line.size()) : space));
}

// One key for each pattern, as the service would name it.
std::vector<std::string> sample_keys(const Settings& settings) {
  std::vector<std::string> out;
  for (const redis::KeyPattern& each : redis::kKeyPatterns) {
    std::string key(each.pattern);
    for (std::size_t at = 0; (at = key.find('*', at)) != std::string::npos;) key.replace(at, 1, "x");
    out.push_back(settings.redis.key_prefix + key);
  }
  return out;
}

enum class Permission : std::uint8_t { kAllowed, kCommandDenied, kKeyDenied };

Permission permission_of(const redis::Reply& reply) {
  if (!reply.is_error() || !reply.error().starts_with("NOPERM")) return Permission::kAllowed;
  return reply.error().find(" to run ") != std::string_view::npos ? Permission::kCommandDenied
                                                                  : Permission::kKeyDenied;
}

// Probes whether a transaction can be started; otherwise everything after MULTI would be executed.
Result<bool> can_queue(redis::BlockingRedis& redis) {
  FRESHET_TRY(replies, redis.call(Pipeline().add("MULTI").add("EXEC")));
  return !replies->front().is_error() && !replies->back().is_error();
}

void read_replies(const redis::Replies& replies, const std::vector<const char*>& required,
                  std::span<const char* const> unneeded, const std::vector<std::string>& keys,
                  AccountFacts& facts) {
  std::size_t at = 1;  // skips MULTI's reply
  for (const char* const line : required) {
    if (permission_of(replies[at++]) == Permission::kCommandDenied)
      facts.missing.push_back(command_name(line));
  }
  for (const std::string& key : keys) {
    if (permission_of(replies[at++]) == Permission::kKeyDenied) facts.missing.push_back("the key " + key);
  }
  if (permission_of(replies[at++]) == Permission::kKeyDenied)
    facts.missing.emplace_back("the channel hot:epoch");
  for (const char* const line : unneeded) {
    if (permission_of(replies[at++]) == Permission::kAllowed) facts.excess.push_back(command_name(line));
  }
  if (!unneeded.empty() && permission_of(replies[at]) == Permission::kAllowed)
    facts.excess.emplace_back("keys of other applications");
}

// `unneeded`: commands that the account should be denied; empty: keys of other applications are not
// probed either.
Result<AccountFacts> probe(const redis::Endpoint& endpoint, const Settings& settings,
                           std::span<const char* const> more_commands,
                           std::span<const char* const> unneeded) {
  AccountFacts facts;
  facts.name = endpoint.username.empty() ? "default" : endpoint.username;
  redis::BlockingRedis redis(endpoint, kRedisTimeout, {});
  FRESHET_TRY(queues, can_queue(redis));
  if (!*queues) {
    facts.missing = {"MULTI", "EXEC"};
    return facts;
  }
  const redis::Keys keys(settings.redis);
  const auto patterns = sample_keys(settings);
  std::vector<const char*> required(kRequiredCommands.begin(), kRequiredCommands.end());
  required.insert(required.end(), more_commands.begin(), more_commands.end());
  Pipeline questions;
  questions.add("MULTI");
  for (const char* const line : required)
    append_command(line, keys.partition(0).stream(), keys.epoch(), questions);
  for (const std::string& key : patterns) questions.add("EXISTS", key);
  questions.add("PUBLISH", keys.epoch(), "x");
  for (const char* const line : unneeded) append_command(line, {}, {}, questions);
  if (!unneeded.empty()) questions.add("EXISTS", kForeignKey);
  FRESHET_TRY(replies, redis.call(questions));
  read_replies(*replies, required, unneeded, patterns, facts);
  return facts;
}

}  // namespace

std::string join_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) out += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMaxNames) out += fmt::format(" and {} more", names.size() - kMaxNames);
  return out;
}

Result<AccountFacts> collect_account_facts(const redis::Endpoint& service, const Settings& settings) {
  return probe(service, settings, {}, kUnneededCommands);
}

Result<AccountFacts> collect_missing_rights(const redis::Endpoint& endpoint, const Settings& settings,
                                            std::span<const char* const> more_commands) {
  return probe(endpoint, settings, more_commands, {});
}

void evaluate_account(const AccountFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.account";
  if (!facts.missing.empty())
    out.error(kCheck, fmt::format("the account {} lacks rights: {}", facts.name, join_names(facts.missing)),
              "copy the account's line from this version's redis-acl.conf (with redis.key_prefix before each "
              "pattern), then run ACL LOAD or restart Redis");
  if (!facts.excess.empty())
    out.warn(kCheck,
             fmt::format("the account {} has rights that the service does not need: {}", facts.name,
                         join_names(facts.excess)),
             "use the account freshet from redis-acl.conf; set its name and password in redis.username and "
             "redis.password_file");
  if (facts.missing.empty() && facts.excess.empty())
    out.ok(kCheck, fmt::format("the account {} has exactly the rights that the service needs", facts.name));
}

}  // namespace freshet::ctl
