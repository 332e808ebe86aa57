#include "scripts/ctl/backup/load_redis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "core/redis/schema.h"
#include "scripts/ctl/backup/partition_mover.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;

namespace {

constexpr std::size_t kPipelineBytes = 1 << 18;   // bytes sent at once
constexpr std::size_t kMembersPerCommand = 1000;  // per command
constexpr seconds kScratchTtl{60};                // of a key that is deleted at once

bool is_erasure(const redis::KeyPattern& row) {
  return row.pattern == "user:erased:{*}" || row.pattern == "user:epoch:{*}";
}

// Freshet's keys, in any number of partitions, without the recorder's lease and the fences of this
// Redis' partitions, which belong to the restoring process, not to the backup, and without the
// traces of erasures, which hold for any data.
std::vector<std::string> restorable_keys(const std::vector<std::string>& page,
                                         const RedisSettings& settings) {
  const redis::Keys keys(settings.key_prefix, redis::Keys::Topology::kCluster);
  const redis::Keys own_keys(settings);
  std::set<std::string> fences;
  for (const redis::PartitionKeys& each : own_keys.partitions()) fences.insert(each.fence());
  std::vector<std::string> out;
  for (const std::string& key : page) {
    const redis::KeyPattern* const row = keys.pattern_of(key);
    if (row != nullptr && row->pattern != "recorder:lease" && !fences.contains(key) && !is_erasure(*row))
      out.push_back(key);
  }
  return out;
}

using RecordType = DumpRecord::Type;

// Appends one command per kMembersPerCommand members. `step`: 2 for pairs. `option`: an argument
// before them; empty: none.
void append_members(Pipeline& out, const char* command, const DumpRecord& record, std::size_t step,
                    std::string_view option = {}) {
  const std::size_t all = record.members.size() / step * step;
  for (std::size_t from = 0; from < all; from += kMembersPerCommand) {
    const std::size_t count = std::min(kMembersPerCommand, all - from);
    out.command((option.empty() ? 2 : 3) + count).arg(command).arg(record.key);
    if (!option.empty()) out.arg(option);
    for (std::size_t i = from; i < from + count; i += step) {
      if (record.type == RecordType::kSortedSet) out.arg(record.members[i + 1]);  // before the member
      out.arg(record.members[i]);
      if (record.type == RecordType::kHash) out.arg(record.members[i + 1]);
    }
  }
}

// Marks of the key itself keep the highest score (the lowest, since they are negative) if several
// old keys become this one.
void append_marks(Pipeline& out, DumpRecord& record) {
  for (std::size_t i = record.members.size(); i >= 2; i -= 2) {
    if (!redis::is_mark(record.members[i - 2])) continue;
    out.add("ZADD", record.key, "LT", record.members[i - 1], record.members[i - 2]);
    const auto at = record.members.begin() + static_cast<std::ptrdiff_t>(i);
    record.members.erase(at - 2, at);
  }
}

using Fields = std::map<std::string, std::string>;

// Adds the fields of an article's hash (core/hot/article.h) to those of the same article under
// another id. Of what is not a counter, the item that was put has precedence.
void merge_article(Fields& into, const std::vector<std::string>& fields) {
  constexpr std::array<std::string_view, 6> kIntegers{"pv", "uv", "ms", "views", "shown", "uv_correction"};
  constexpr std::array<std::string_view, 2> kFractions{"total", "score"};
  constexpr std::array<std::string_view, 5> kLatest{"renewed", "viewed", "v", "began", "views_began"};
  constexpr auto integer = redis::parse_or_zero<std::int64_t>;
  constexpr auto number = redis::parse_or_zero<double>;
  const auto is_one_of = [](const auto& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  const bool was_put = into.contains("date");
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    const std::string& name = fields[i];
    const std::string& added = fields[i + 1];
    const auto [at, is_new] = into.try_emplace(name, added);
    if (is_new) continue;
    std::string& value = at->second;
    if (is_one_of(kIntegers, name))
      value = std::to_string(integer(value) + integer(added));
    else if (is_one_of(kFractions, name))
      value = fmt::format("{}", number(value) + number(added));
    else if (is_one_of(kLatest, name))
      value = std::to_string(std::max(integer(value), integer(added)));
    else if (!was_put)
      value = added;
  }
  into.erase("counted");  // the next visitor is counted by PFCOUNT
  if (!into.contains("date")) return;
  for (const char* const name : {"first", "dated", "begin", "increments"}) into.erase(name);
}

// `score_option`: of ZADD, which decides between members that become one.
void append_write(Pipeline& out, DumpRecord record, std::string_view score_option = {}) {
  if (record.type == RecordType::kSortedSet) append_marks(out, record);
  switch (record.type) {
    case RecordType::kString:
      out.add("SET", record.key, record.value);
      break;
    case RecordType::kHash:
      append_members(out, "HSET", record, 2);
      break;
    case RecordType::kList:
      append_members(out, "RPUSH", record, 1);
      break;
    case RecordType::kSet:
      append_members(out, "SADD", record, 1);
      break;
    case RecordType::kSortedSet:
      append_members(out, "ZADD", record, 2, score_option);
      break;
    case RecordType::kEntry:
    case RecordType::kBloom:
      out.command(2 + record.members.size());
      out.arg(record.type == RecordType::kEntry ? "XADD" : "BF.LOADCHUNK").arg(record.key);
      for (const std::string& each : record.members) out.arg(each);
      break;
    case RecordType::kEnd:
      return;
  }
  if (record.expires_ms != 0) out.add("PEXPIREAT", record.key, record.expires_ms);
}

class Loader {
 public:
  Loader(redis::BlockingRedis& redis, const RedisSettings& settings, const DumpConverter* converter,
         std::int64_t total, ProgressLine& line)
      : redis_(redis), keys_(settings), mover_(settings), converter_(converter), total_(total), line_(line) {}

  Result<RedisLoadResult> run(DumpReader& dump) {
    if (auto ok = read_clock(); !ok) return tl::unexpected(ok.error());
    DumpRecord record;
    for (;;) {
      FRESHET_TRY(more, dump.next(record));
      if (!*more) break;
      if (auto ok = add(record); !ok) return tl::unexpected(ok.error());
    }
    for (auto& [key, fields] : merged_articles_) write_merged_article(key, fields);
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
    const redis::KeyPattern* const row = mover_.names().pattern_of(record.key);
    if (row != nullptr && (row->pattern == "hot:rank:meta" || row->pattern == "hot:groups"))
      return {};  // mark_restoring() has written them
    if (row != nullptr && is_erasure(*row)) {
      out_.command(record.expires_ms != 0 ? 6 : 4).arg("SET").arg(record.key).arg(record.value).arg("NX");
      if (record.expires_ms != 0) out_.arg("PXAT").arg(record.expires_ms);
    } else {
      for (DumpRecord& each : converted(record)) {
        if (row == nullptr || !mover_.is_misplaced(each.key, *row)) {
          write(std::move(each), row);
        } else {
          for (DumpRecord& moved : mover_.move(each)) write(std::move(moved), row);
        }
      }
    }
    return out_.bytes().size() < kPipelineBytes ? Result<void>() : send();
  }

  std::vector<DumpRecord> converted(const DumpRecord& record) const {
    return converter_ == nullptr ? std::vector{record} : converter_->convert(record);
  }

  void write(DumpRecord record, const redis::KeyPattern* row) {
    if (converter_ == nullptr || row == nullptr) return append_write(out_, std::move(record));
    // A reader's timeline is complete only up to the lower of the scores of follow:authors.
    const char* const score_option = row->pattern == "follow:authors:{*}" ? "LT" : "GT";
    if (!converter_->is_merged(record.key)) return append_write(out_, std::move(record), score_option);
    if (row->pattern == "item:{*}") return;  // reconcile() puts the database's
    record.expires_ms = latest_expiry(record);
    if (row->pattern == "hot:article:{*}") {
      merge_article(merged_articles_[record.key], record.members);
    } else if (row->pattern == "hot:uv:hll:{*}") {
      const std::string visitors = record.key + ":merge";
      out_.add("SET", visitors, record.value, "EX", kScratchTtl.count());
      out_.add("PFMERGE", record.key, visitors).add("UNLINK", visitors);
      if (record.expires_ms != 0) out_.add("PEXPIREAT", record.key, record.expires_ms);
    } else {
      append_write(out_, std::move(record), score_option);
    }
  }

  // Returns the latest expiry so far of the old keys that become this one; 0: never.
  std::int64_t latest_expiry(const DumpRecord& record) {
    const auto [latest, is_new] = expiries_.try_emplace(record.key, record.expires_ms);
    if (record.expires_ms == 0 || latest->second == 0)
      latest->second = 0;
    else
      latest->second = std::max(latest->second, record.expires_ms);
    return latest->second;
  }

  void write_merged_article(const std::string& key, const Fields& fields) {
    DumpRecord record;
    record.type = RecordType::kHash;
    record.key = key;
    record.expires_ms = expiries_[key];
    for (const auto& [name, value] : fields) record.members.insert(record.members.end(), {name, value});
    append_write(out_, std::move(record));
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
  const redis::Keys keys_;
  const PartitionMover mover_;
  const DumpConverter* const converter_;
  const std::int64_t total_;
  ProgressLine& line_;
  const ProgressLine::Clock::time_point began_ = ProgressLine::Clock::now();
  Pipeline out_;
  std::map<std::string, Fields> merged_articles_;  // by key
  std::map<std::string, std::int64_t> expiries_;   // of keys that several old ones become
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

Result<void> mark_restoring(redis::BlockingRedis& redis, const RedisSettings& settings) {
  Pipeline mark;
  redis::append_restoring(mark, redis::Keys(settings));
  FRESHET_TRY(replies, redis.call_all(mark));
  return {};
}

Result<std::int64_t> remove_keys(redis::BlockingRedis& redis, const RedisSettings& settings) {
  const redis::Keys own_keys(settings);
  std::set<std::string> marks;
  for (const redis::PartitionKeys& each : own_keys.partitions()) marks.insert(each.meta());
  if (own_keys.in_cluster()) marks.insert(own_keys.partition_count_key());
  std::int64_t removed = 0;
  const auto scanned = scan_all(redis, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
    auto keys = restorable_keys(page, settings);
    std::erase_if(keys, [&](const std::string& key) { return marks.contains(key); });
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

Result<void> check_loadable(redis::BlockingRedis& redis, const RedisSettings& settings, DumpReader& dump) {
  const std::string scratch = redis::Keys(settings).job("restore-test");
  std::set<RecordType> types;
  for (DumpRecord record;;) {
    FRESHET_TRY(more, dump.next(record));
    if (!*more) return {};
    if (!types.insert(record.type).second) continue;
    record.key = scratch;
    record.expires_ms = 1000 * unix_s(wall_now() + kScratchTtl);
    Pipeline attempt;
    attempt.add("UNLINK", scratch);
    append_write(attempt, record);
    attempt.add("UNLINK", scratch);
    FRESHET_TRY(replies, run_pipeline(redis, attempt));
    for (const Reply& each : *replies) {
      // A full server has room once its keys are deleted.
      if (each.is_error() && !each.error().starts_with("OOM"))
        return fail(ErrorCode::kConflict, "backup_not_loadable", {}, std::string(each.error()));
    }
  }
}

Result<RedisLoadResult> load_redis(redis::BlockingRedis& redis, const RedisSettings& settings,
                                   DumpReader& dump, const DumpConverter* converter, std::int64_t total,
                                   ProgressLine& line) {
  return Loader(redis, settings, converter, total, line).run(dump);
}

}  // namespace freshet::ctl
