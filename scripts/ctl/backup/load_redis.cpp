#include "scripts/ctl/backup/load_redis.h"

#include <algorithm>
#include <vector>

#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;

namespace {

constexpr std::size_t kPipelineBytes = 1 << 18;   // bytes sent at once
constexpr std::size_t kMembersPerCommand = 1000;  // per command

// Freshet's keys without the recorder's lease and fence, which belong to the restoring process, not
// to the backup.
std::vector<std::string> restorable_keys(const std::vector<std::string>& page,
                                         const RedisSettings& settings) {
  const redis::Keys keys(settings);
  std::vector<std::string> out;
  for (const std::string& key : page) {
    const redis::KeyPattern* const row = keys.pattern_of(key);
    if (row != nullptr && row->pattern != "recorder:lease" && row->pattern != "recorder:fence")
      out.push_back(key);
  }
  return out;
}

class Loader {
 public:
  Loader(redis::BlockingRedis& redis, std::int64_t total, ProgressLine& line)
      : redis_(redis), total_(total), line_(line) {}

  Result<RedisLoadResult> run(DumpReader& dump) {
    if (auto ok = read_clock(); !ok) return tl::unexpected(ok.error());
    DumpRecord record;
    for (;;) {
      FRESHET_TRY(more, dump.next(record));
      if (!*more) break;
      if (auto ok = add(record); !ok) return tl::unexpected(ok.error());
    }
    if (auto ok = send(); !ok) return tl::unexpected(ok.error());
    line_.clear();
    return result_;
  }

 private:
  Result<void> read_clock() {
    Pipeline pipeline;
    pipeline.add("TIME");
    FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
    now_ms_ = 1000 * redis::parse_or_zero<std::int64_t>(redis::string_at(replies->front(), 0));
    return {};
  }

  Result<void> add(const DumpRecord& record) {
    if (record.expires_ms != 0 && record.expires_ms <= now_ms_) {
      ++result_.expired;
      return {};
    }
    if (record.key != last_key_) ++result_.keys;  // a large key has several records
    last_key_ = record.key;
    if (record.type == DumpRecord::Type::kValue)
      out_.add("RESTORE", record.key, record.expires_ms, record.value, "ABSTTL");
    else
      add_members(record);
    return out_.bytes().size() < kPipelineBytes ? Result<void>() : send();
  }

  // Adds a piece of a large key.
  void add_members(const DumpRecord& record) {
    const bool sorted = record.type == DumpRecord::Type::kSortedSet;
    const std::size_t step = sorted ? 2 : 1;
    const std::size_t all = record.members.size() / step * step;
    for (std::size_t from = 0; from < all; from += kMembersPerCommand) {
      const std::size_t count = std::min(kMembersPerCommand, all - from);
      out_.command(2 + count).arg(sorted ? "ZADD" : "SADD").arg(record.key);
      for (std::size_t i = from; i < from + count; i += step) {
        if (sorted) out_.arg(record.members[i + 1]);
        out_.arg(record.members[i]);
      }
    }
    if (record.expires_ms != 0) out_.add("PEXPIREAT", record.key, record.expires_ms);
  }

  Result<void> send() {
    if (out_.empty()) return {};
    FRESHET_TRY(replies, run_pipeline(redis_, out_));
    for (const Reply& each : *replies) {
      if (each.is_error())
        return fail(ErrorCode::kInvalid, "redis_refused", {},
                    "Redis rejected a value: " + std::string(each.error()));
    }
    out_.clear();
    line_.update({result_.keys, total_, ProgressLine::Clock::now() - began_, {}});
    return {};
  }

  redis::BlockingRedis& redis_;
  const std::int64_t total_;
  ProgressLine& line_;
  const ProgressLine::Clock::time_point began_ = ProgressLine::Clock::now();
  Pipeline out_;
  std::int64_t now_ms_ = 0;
  std::string last_key_;
  RedisLoadResult result_;
};

}  // namespace

Result<bool> has_keys(redis::BlockingRedis& redis, const RedisSettings& settings) {
  bool found_one = false;
  const auto scanned = scan_all(redis, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
    found_one = !restorable_keys(page, settings).empty();
    return found_one ? fail(ErrorCode::kConflict, "has_keys") : Result<void>();
  });
  if (!scanned && !found_one) return tl::unexpected(scanned.error());
  return found_one;
}

Result<std::int64_t> remove_keys(redis::BlockingRedis& redis, const RedisSettings& settings) {
  std::int64_t removed = 0;
  const auto scanned = scan_all(redis, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
    const auto keys = restorable_keys(page, settings);
    if (keys.empty()) return {};
    Pipeline unlink;
    for (const std::string& key : keys) unlink.add("UNLINK", key);
    FRESHET_TRY(replies, run_pipeline(redis, unlink));
    for (const Reply& each : *replies) {
      if (each.is_error()) return fail(ErrorCode::kInvalid, "redis_refused", {}, std::string(each.error()));
      removed += each.integer().value_or(0);
    }
    return {};
  });
  if (!scanned) return tl::unexpected(scanned.error());
  return removed;
}

Result<RedisLoadResult> load_redis(redis::BlockingRedis& redis, DumpReader& dump, std::int64_t total,
                                   ProgressLine& line) {
  return Loader(redis, total, line).run(dump);
}

}  // namespace freshet::ctl
