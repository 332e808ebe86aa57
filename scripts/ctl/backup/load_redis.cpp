#include "scripts/ctl/backup/load_redis.h"

#include <algorithm>
#include <vector>

#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;

namespace {

constexpr std::size_t kPipelineBytes = 1 << 18;  // sent together
constexpr std::size_t kMembersAtOnce = 1000;     // of one command

// The lease and its fences are not of a backup, but of who restores it.
std::vector<std::string> ours(const std::vector<std::string>& found, const RedisSettings& settings) {
  const redis::Keys keys(settings);
  std::vector<std::string> out;
  for (const std::string& key : found) {
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

  Result<RedisLoaded> run(DumpReader& dump) {
    if (auto ok = look_at_clock(); !ok) return tl::unexpected(ok.error());
    DumpRecord record;
    for (;;) {
      FRESHET_TRY(more, dump.next(record));
      if (!*more) break;
      if (auto ok = add(record); !ok) return tl::unexpected(ok.error());
    }
    if (auto ok = send(); !ok) return tl::unexpected(ok.error());
    line_.clear();
    return loaded_;
  }

 private:
  Result<void> look_at_clock() {
    Pipeline asked;
    asked.add("TIME");
    FRESHET_TRY(replies, ask(redis_, asked));
    now_ms_ = 1000 * redis::parse_or_zero<std::int64_t>(redis::string_at(replies->front(), 0));
    return {};
  }

  Result<void> add(const DumpRecord& record) {
    if (record.expires_ms != 0 && record.expires_ms <= now_ms_) {
      ++loaded_.expired;
      return {};
    }
    if (record.key != last_) ++loaded_.keys;  // a large one has several records
    last_ = record.key;
    if (record.kind == DumpRecord::Kind::kValue)
      out_.add("RESTORE", record.key, record.expires_ms, record.value, "ABSTTL");
    else
      add_members(record);
    return out_.bytes().size() < kPipelineBytes ? Result<void>() : send();
  }

  // A piece of a large key.
  void add_members(const DumpRecord& record) {
    const bool sorted = record.kind == DumpRecord::Kind::kSorted;
    const std::size_t step = sorted ? 2 : 1;
    const std::size_t all = record.members.size() / step * step;
    for (std::size_t from = 0; from < all; from += kMembersAtOnce) {
      const std::size_t count = std::min(kMembersAtOnce, all - from);
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
    FRESHET_TRY(replies, ask(redis_, out_));
    for (const Reply& each : *replies) {
      if (each.is_error())
        return fail(ErrorCode::kInvalid, "redis_refused", {}, "Redis refused: " + std::string(each.error()));
    }
    out_.clear();
    line_.show({loaded_.keys, total_, ProgressLine::Clock::now() - began_, {}});
    return {};
  }

  redis::BlockingRedis& redis_;
  const std::int64_t total_;
  ProgressLine& line_;
  const ProgressLine::Clock::time_point began_ = ProgressLine::Clock::now();
  Pipeline out_;
  std::int64_t now_ms_ = 0;
  std::string last_;
  RedisLoaded loaded_;
};

}  // namespace

Result<bool> has_keys(redis::BlockingRedis& redis, const RedisSettings& settings) {
  bool found_one = false;
  const auto walked = walk(redis, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
    found_one = !ours(found, settings).empty();
    return found_one ? fail(ErrorCode::kConflict, "has_keys") : Result<void>();
  });
  if (!walked && !found_one) return tl::unexpected(walked.error());
  return found_one;
}

Result<std::int64_t> remove_keys(redis::BlockingRedis& redis, const RedisSettings& settings) {
  std::int64_t removed = 0;
  const auto walked = walk(redis, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
    const auto some = ours(found, settings);
    if (some.empty()) return {};
    Pipeline unlink;
    for (const std::string& key : some) unlink.add("UNLINK", key);
    FRESHET_TRY(replies, ask(redis, unlink));
    for (const Reply& each : *replies) {
      if (each.is_error()) return fail(ErrorCode::kInvalid, "redis_refused", {}, std::string(each.error()));
      removed += each.integer().value_or(0);
    }
    return {};
  });
  if (!walked) return tl::unexpected(walked.error());
  return removed;
}

Result<RedisLoaded> load_redis(redis::BlockingRedis& redis, DumpReader& dump, std::int64_t total,
                               ProgressLine& line) {
  return Loader(redis, total, line).run(dump);
}

}  // namespace freshet::ctl
