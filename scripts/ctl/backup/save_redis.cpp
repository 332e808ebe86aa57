#include "scripts/ctl/backup/save_redis.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <vector>

#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {

using redis::KeyPattern;
using redis::Pipeline;
using redis::Reply;
using redis::string_at;

namespace {

using RecordType = DumpRecord::Type;

constexpr std::size_t kPipelineKeys = 40;  // keys per pipeline: a DUMP of 500 members takes Redis 40 µs
constexpr std::int64_t kMaxWholeMembers = 10000;  // larger sets are read in pieces
constexpr std::int64_t kMinTtlMs = 60'000;  // keys with a shorter TTL expire before a restore is finished

// Prefixes of their names.
constexpr std::array<std::string_view, 7> kExcludedPrefixes{
    "hot:rank", "hot:placed", "hot:unplaced", "hot:list", "feed:cache:", "recorder:lease", "recorder:fence"};

// Keys of one article that are saved in one transaction: visitors are counted in one and looked up
// in the other.
constexpr std::string_view kLeadPrefix = "hot:article:";
constexpr std::array<std::string_view, 1> kDependentPrefixes{"hot:uv:hll:"};
constexpr std::string_view kJobPattern = "job:*";

const char* size_command(std::string_view type) {
  if (type == "zset") return "ZCARD";
  return type == "set" ? "SCARD" : nullptr;
}

class Saver {
 public:
  Saver(redis::BlockingRedis& redis, const RedisSettings& settings, DumpWriter& dump, ProgressLine& line)
      : redis_(redis), keys_(settings), prefix_(settings.key_prefix), dump_(dump), line_(line) {}

  Result<RedisSaveResult> run() {
    if (auto ok = read_server_info(); !ok) return tl::unexpected(ok.error());
    for (const bool jobs : {true, false}) {
      if (auto ok = save_pass(jobs); !ok) return tl::unexpected(ok.error());
    }
    // Keys with fixed names come last, the streams at the very end.
    std::vector<std::string> last, streams;
    for (const KeyPattern& each : redis::kKeyPatterns) {
      if (each.pattern.find('*') != std::string_view::npos || is_excluded_from_backup(each.pattern)) continue;
      auto& to = each.type == "stream" ? streams : last;
      for (std::string& name : keys_.names_of(each)) to.push_back(std::move(name));
    }
    for (const auto& keys : {last, streams}) {
      if (auto ok = save(keys); !ok) return tl::unexpected(ok.error());
    }
    line_.clear();
    return result_;
  }

 private:
  Result<void> read_server_info() {
    Pipeline pipeline;
    pipeline.add("INFO", "server").add("DBSIZE");
    FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
    constexpr std::string_view kVersion = "redis_version:";
    const std::string_view info = replies->front().string().value_or("");
    if (const std::size_t at = info.find(kVersion); at != info.npos) {
      const std::string_view rest = info.substr(at + kVersion.size());
      result_.version = rest.substr(0, rest.find_first_of("\r\n"));
    }
    total_ = (*replies)[1].integer().value_or(0);
    return {};
  }

  Result<void> save_pass(bool jobs) {
    return scan_all(redis_, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
      std::vector<std::string> selected;
      for (const std::string& key : page) {
        if (!key.starts_with(prefix_)) continue;
        const KeyPattern* const pattern = keys_.pattern_of(key);
        if (pattern == nullptr) {
          if (!jobs) ++result_.foreign_keys;
          continue;
        }
        const bool saved_last = pattern->pattern.find('*') == std::string_view::npos;
        if (saved_last || is_excluded_from_backup(pattern->pattern) || is_dependent(key) ||
            (pattern->pattern == kJobPattern) != jobs)
          continue;
        if (saved_keys_.insert(key).second) selected.push_back(key);
      }
      line_.update({result_.keys, total_, ProgressLine::Clock::now() - began_, {}});
      return save(selected);
    });
  }

  bool is_dependent(std::string_view key) const {
    key.remove_prefix(prefix_.size());
    return std::any_of(kDependentPrefixes.begin(), kDependentPrefixes.end(),
                       [&](std::string_view head) { return key.starts_with(head); });
  }
  std::vector<std::string> with_dependents(const std::string& key) const {
    std::vector<std::string> out{key};
    if (!std::string_view(key).substr(prefix_.size()).starts_with(kLeadPrefix)) return out;
    const std::string rest = key.substr(prefix_.size() + kLeadPrefix.size());
    for (const std::string_view head : kDependentPrefixes) out.push_back(prefix_ + std::string(head) + rest);
    return out;
  }

  Result<void> save(const std::vector<std::string>& keys) {
    for (std::size_t from = 0; from < keys.size(); from += kPipelineKeys) {
      const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end =
          keys.begin() + static_cast<std::ptrdiff_t>(std::min(from + kPipelineKeys, keys.size()));
      FRESHET_TRY(small, save_large({begin, end}));
      if (auto ok = dump_whole(*small); !ok) return ok;
    }
    return {};
  }

  // Saves the large keys and returns the others.
  Result<std::vector<std::string>> save_large(std::vector<std::string> keys) {
    Pipeline sizes;
    for (const std::string& key : keys) {
      const char* const command = size_command(keys_.pattern_of(key)->type);
      sizes.add(command != nullptr ? command : "EXISTS", key);
    }
    FRESHET_TRY(replies, run_pipeline(redis_, sizes));
    std::vector<std::string> small;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if ((*replies)[i].integer().value_or(0) <= kMaxWholeMembers) {
        small.push_back(std::move(keys[i]));
      } else if (auto ok = save_in_pieces(keys[i]); !ok) {
        return tl::unexpected(ok.error());
      }
    }
    return small;
  }

  Result<void> dump_whole(const std::vector<std::string>& keys) {
    if (keys.empty()) return {};
    Pipeline pipeline;
    pipeline.add("TIME");
    for (const std::string& key : keys) {
      const auto family = with_dependents(key);
      if (family.size() > 1) pipeline.add("MULTI");
      for (const std::string& each : family) pipeline.add("PTTL", each).add("DUMP", each);
      if (family.size() > 1) pipeline.add("EXEC");
    }
    FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
    const std::int64_t now = time_ms(replies->front());
    std::size_t at = 1;
    for (const std::string& key : keys) {
      const auto family = with_dependents(key);
      if (family.size() == 1) {
        if (auto ok = add(key, now, (*replies)[at], (*replies)[at + 1]); !ok) return ok;
        at += 2;
        continue;
      }
      at += 1 + 2 * family.size();  // skips the replies to MULTI and the queued commands
      const Reply& transaction = (*replies)[at++];
      for (std::size_t i = 0; i < family.size(); ++i) {
        if (auto ok = add(family[i], now, transaction[2 * i], transaction[2 * i + 1]); !ok) return ok;
      }
    }
    return {};
  }

  static std::int64_t time_ms(const Reply& time) {
    return redis::parse_or_zero<std::int64_t>(string_at(time, 0)) * 1000 +
           redis::parse_or_zero<std::int64_t>(string_at(time, 1)) / 1000;
  }

  Result<void> add(const std::string& key, std::int64_t now, const Reply& ttl, const Reply& value) {
    const auto payload = value.optional_string();
    if (!payload) return redis_error(value.is_error() ? value.error() : "no reply to DUMP");
    if (!*payload) return {};  // gone since SCAN returned it
    const std::int64_t ttl_ms = ttl.integer().value_or(-1);
    if (ttl_ms >= 0 && ttl_ms <= kMinTtlMs) return {};
    DumpRecord record;
    record.key = key;
    record.expires_ms = ttl_ms < 0 ? 0 : now + ttl_ms;
    record.value = **payload;
    ++result_.keys;
    return dump_.add(record);
  }

  Result<void> save_in_pieces(const std::string& key) {
    Pipeline pipeline;
    pipeline.add("TIME").add("PTTL", key);
    FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
    const std::int64_t ttl_ms = (*replies)[1].integer().value_or(-1);
    DumpRecord record;
    record.key = key;
    record.expires_ms = ttl_ms < 0 ? 0 : time_ms(replies->front()) + ttl_ms;
    record.type = keys_.pattern_of(key)->type == "zset" ? RecordType::kSortedSet : RecordType::kSet;
    ++result_.keys;
    std::string cursor = "0";
    do {
      Pipeline scan;
      scan.add(record.type == RecordType::kSortedSet ? "ZSCAN" : "SSCAN", key, cursor, "COUNT", 1000);
      FRESHET_TRY(page, run_pipeline(redis_, scan));
      if (page->front().is_error()) return redis_error(page->front().error());
      cursor = string_at(page->front(), 0);
      const Reply members = page->front()[1];
      record.members.clear();
      for (std::size_t i = 0; i < members.size(); ++i) record.members.emplace_back(string_at(members, i));
      if (record.members.empty()) continue;
      if (auto ok = dump_.add(record); !ok) return ok;
    } while (cursor != "0");
    return {};
  }

  static Result<void> redis_error(std::string_view error) {
    return fail(ErrorCode::kInternal, "redis_error", {}, std::string(error));
  }

  redis::BlockingRedis& redis_;
  const redis::Keys keys_;
  const std::string prefix_;
  DumpWriter& dump_;
  ProgressLine& line_;
  const ProgressLine::Clock::time_point began_ = ProgressLine::Clock::now();
  RedisSaveResult result_;
  std::int64_t total_ = 0;
  std::unordered_set<std::string> saved_keys_;  // SCAN may return a key twice
};

}  // namespace

bool is_excluded_from_backup(std::string_view pattern) {
  return std::ranges::any_of(kExcludedPrefixes,
                             [&](std::string_view head) { return pattern.starts_with(head); });
}

Result<RedisSaveResult> save_redis(redis::BlockingRedis& redis, const RedisSettings& settings,
                                   DumpWriter& dump, ProgressLine& line) {
  return Saver(redis, settings, dump, line).run();
}

}  // namespace freshet::ctl
