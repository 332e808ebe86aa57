#include "scripts/ctl/backup/save_redis.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <vector>

#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {

using redis::KeyPattern;
using redis::Pipeline;
using redis::Reply;
using redis::string_at;

namespace {

using RecordKind = DumpRecord::Kind;

constexpr std::size_t kAtOnce = 40;        // keys of one pipeline: a DUMP of 500 members takes Redis 40 us
constexpr std::int64_t kWhole = 10000;     // members; a larger key is read in pieces
constexpr std::int64_t kWorthMs = 60'000;  // what lives shorter is gone before a restore is over

// What their names begin with.
constexpr std::array<std::string_view, 7> kLeftOut{
    "hot:rank", "hot:placed", "hot:unplaced", "hot:list", "feed:cache:", "recorder:lease", "recorder:fence"};

// Of one article, read together: visitors are counted in the one and looked up in the other.
constexpr std::string_view kFirstOfFamily = "hot:article:";
constexpr std::array<std::string_view, 1> kFamily{"hot:uv:hll:"};
constexpr std::string_view kJobs = "job:*";

const char* size_command(std::string_view type) {
  if (type == "zset") return "ZCARD";
  return type == "set" ? "SCARD" : nullptr;
}

class Saver {
 public:
  Saver(redis::BlockingRedis& redis, const RedisSettings& settings, DumpWriter& dump, ProgressLine& line)
      : redis_(redis), keys_(settings), prefix_(settings.key_prefix), dump_(dump), line_(line) {}

  Result<RedisSaved> run() {
    if (auto ok = look_at_server(); !ok) return tl::unexpected(ok.error());
    for (const bool jobs : {true, false}) {
      if (auto ok = pass(jobs); !ok) return tl::unexpected(ok.error());
    }
    // Those with a name of their own, in the table's order but for the streams.
    std::vector<std::string> last, streams;
    for (const KeyPattern& each : redis::kKeyPatterns) {
      if (each.pattern.find('*') != std::string_view::npos || left_out(each.pattern)) continue;
      auto& to = each.type == "stream" ? streams : last;
      for (std::string& name : keys_.names_of(each)) to.push_back(std::move(name));
    }
    for (const auto& some : {last, streams}) {
      if (auto ok = save(some); !ok) return tl::unexpected(ok.error());
    }
    line_.clear();
    return saved_;
  }

 private:
  Result<void> look_at_server() {
    Pipeline asked;
    asked.add("INFO", "server").add("DBSIZE");
    FRESHET_TRY(replies, ask(redis_, asked));
    constexpr std::string_view kVersion = "redis_version:";
    const std::string_view info = replies->front().string().value_or("");
    if (const std::size_t at = info.find(kVersion); at != info.npos) {
      const std::string_view rest = info.substr(at + kVersion.size());
      saved_.version = rest.substr(0, rest.find_first_of("\r\n"));
    }
    total_ = (*replies)[1].integer().value_or(0);
    return {};
  }

  Result<void> pass(bool jobs) {
    return walk(redis_, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
      std::vector<std::string> wanted;
      for (const std::string& key : found) {
        if (!key.starts_with(prefix_)) continue;
        const KeyPattern* const pattern = keys_.pattern_of(key);
        if (pattern == nullptr) {
          if (!jobs) ++saved_.strangers;
          continue;
        }
        const bool later = pattern->pattern.find('*') == std::string_view::npos;
        if (later || left_out(pattern->pattern) || in_family(key) || (pattern->pattern == kJobs) != jobs)
          continue;
        if (seen_.insert(key).second) wanted.push_back(key);
      }
      line_.show({saved_.keys, total_, ProgressLine::Clock::now() - began_, {}});
      return save(wanted);
    });
  }

  bool in_family(std::string_view key) const {
    key.remove_prefix(prefix_.size());
    return std::any_of(kFamily.begin(), kFamily.end(),
                       [&](std::string_view head) { return key.starts_with(head); });
  }
  std::vector<std::string> with_family(const std::string& key) const {
    std::vector<std::string> out{key};
    if (!std::string_view(key).substr(prefix_.size()).starts_with(kFirstOfFamily)) return out;
    const std::string rest = key.substr(prefix_.size() + kFirstOfFamily.size());
    for (const std::string_view head : kFamily) out.push_back(prefix_ + std::string(head) + rest);
    return out;
  }

  Result<void> save(const std::vector<std::string>& wanted) {
    for (std::size_t from = 0; from < wanted.size(); from += kAtOnce) {
      const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end = wanted.begin() + static_cast<std::ptrdiff_t>(std::min(from + kAtOnce, wanted.size()));
      FRESHET_TRY(some, split_large({begin, end}));
      if (auto ok = save_whole(*some); !ok) return ok;
    }
    return {};
  }

  // Saves those that are large, and returns the others.
  Result<std::vector<std::string>> split_large(std::vector<std::string> wanted) {
    Pipeline sizes;
    for (const std::string& key : wanted) {
      const char* const command = size_command(keys_.pattern_of(key)->type);
      sizes.add(command != nullptr ? command : "EXISTS", key);
    }
    FRESHET_TRY(replies, ask(redis_, sizes));
    std::vector<std::string> small;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if ((*replies)[i].integer().value_or(0) <= kWhole) {
        small.push_back(std::move(wanted[i]));
      } else if (auto ok = save_pieces(wanted[i]); !ok) {
        return tl::unexpected(ok.error());
      }
    }
    return small;
  }

  Result<void> save_whole(const std::vector<std::string>& wanted) {
    if (wanted.empty()) return {};
    Pipeline asked;
    asked.add("TIME");
    for (const std::string& key : wanted) {
      const auto family = with_family(key);
      if (family.size() > 1) asked.add("MULTI");
      for (const std::string& each : family) asked.add("PTTL", each).add("DUMP", each);
      if (family.size() > 1) asked.add("EXEC");
    }
    FRESHET_TRY(replies, ask(redis_, asked));
    const std::int64_t now = milliseconds_of(replies->front());
    std::size_t at = 1;
    for (const std::string& key : wanted) {
      const auto family = with_family(key);
      if (family.size() == 1) {
        if (auto ok = add(key, now, (*replies)[at], (*replies)[at + 1]); !ok) return ok;
        at += 2;
        continue;
      }
      at += 1 + 2 * family.size();  // behind MULTI and what it queued
      const Reply& together = (*replies)[at++];
      for (std::size_t i = 0; i < family.size(); ++i) {
        if (auto ok = add(family[i], now, together[2 * i], together[2 * i + 1]); !ok) return ok;
      }
    }
    return {};
  }

  static std::int64_t milliseconds_of(const Reply& time) {
    return redis::parse_or_zero<std::int64_t>(string_at(time, 0)) * 1000 +
           redis::parse_or_zero<std::int64_t>(string_at(time, 1)) / 1000;
  }

  Result<void> add(const std::string& key, std::int64_t now, const Reply& ttl, const Reply& value) {
    const auto payload = value.optional_string();
    if (!payload) return refused(value.is_error() ? value.error() : "no answer to DUMP");
    if (!*payload) return {};  // gone since SCAN named it
    const std::int64_t left = ttl.integer().value_or(-1);
    if (left >= 0 && left <= kWorthMs) return {};
    DumpRecord record;
    record.key = key;
    record.expires_ms = left < 0 ? 0 : now + left;
    record.value = **payload;
    ++saved_.keys;
    return dump_.add(record);
  }

  Result<void> save_pieces(const std::string& key) {
    Pipeline asked;
    asked.add("TIME").add("PTTL", key);
    FRESHET_TRY(replies, ask(redis_, asked));
    const std::int64_t left = (*replies)[1].integer().value_or(-1);
    DumpRecord record;
    record.key = key;
    record.expires_ms = left < 0 ? 0 : milliseconds_of(replies->front()) + left;
    record.kind = keys_.pattern_of(key)->type == "zset" ? RecordKind::kSorted : RecordKind::kSet;
    ++saved_.keys;
    std::string cursor = "0";
    do {
      Pipeline scan;
      scan.add(record.kind == RecordKind::kSorted ? "ZSCAN" : "SSCAN", key, cursor, "COUNT", 1000);
      FRESHET_TRY(page, ask(redis_, scan));
      if (page->front().is_error()) return refused(page->front().error());
      cursor = string_at(page->front(), 0);
      const Reply found = page->front()[1];
      record.members.clear();
      for (std::size_t i = 0; i < found.size(); ++i) record.members.emplace_back(string_at(found, i));
      if (record.members.empty()) continue;
      if (auto ok = dump_.add(record); !ok) return ok;
    } while (cursor != "0");
    return {};
  }

  static Result<void> refused(std::string_view error) {
    return fail(ErrorCode::kInternal, "redis_error", {}, std::string(error));
  }

  redis::BlockingRedis& redis_;
  const redis::Keys keys_;
  const std::string prefix_;
  DumpWriter& dump_;
  ProgressLine& line_;
  const ProgressLine::Clock::time_point began_ = ProgressLine::Clock::now();
  RedisSaved saved_;
  std::int64_t total_ = 0;
  std::unordered_set<std::string> seen_;  // SCAN may name a key twice
};

}  // namespace

bool left_out(std::string_view pattern) {
  return std::ranges::any_of(kLeftOut, [&](std::string_view head) { return pattern.starts_with(head); });
}

Result<RedisSaved> save_redis(redis::BlockingRedis& redis, const RedisSettings& settings, DumpWriter& dump,
                              ProgressLine& line) {
  return Saver(redis, settings, dump, line).run();
}

}  // namespace freshet::ctl
