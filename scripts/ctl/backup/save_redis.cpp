#include "scripts/ctl/backup/save_redis.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <vector>

#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "core/redis/schema.h"
#include "fcgi/http/identity.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {

using redis::KeyPattern;
using redis::Pipeline;
using redis::Reply;
using redis::string_at;

namespace {

using RecordType = DumpRecord::Type;

constexpr std::size_t kPipelineKeys = 40;         // keys per pipeline
constexpr std::int64_t kMaxWholeMembers = 10000;  // keys with more members are read in pieces
constexpr int kPieceMembers = 1000;
constexpr std::int64_t kMinTtlMs = 60'000;  // keys with a shorter TTL expire before a restore is finished

// Prefixes of their names.
constexpr std::array<std::string_view, 9> kExcludedPrefixes{
    "hot:rank",      "hot:trending", "hot:placed",     "hot:unplaced",  "hot:list",
    "hot:covisits:", "feed:cache:",  "recorder:lease", "recorder:fence"};

// Keys of one article that are saved in one transaction: visitors are counted in one and looked up
// in the other.
constexpr std::string_view kLeadPrefix = "hot:article:";
constexpr std::array<std::string_view, 1> kDependentPrefixes{"hot:uv:hll:"};
constexpr std::string_view kJobPattern = "job:*";

// How keys of a type are read.
struct TypeRow {
  std::string_view type;  // as in redis::kKeyPatterns
  RecordType record;
  const char* size;  // counts the members; null: never read in pieces
  const char* scan;  // reads a piece
};
constexpr std::array kTypes{
    TypeRow{"string", RecordType::kString, nullptr, nullptr},
    TypeRow{"hash", RecordType::kHash, "HLEN", "HSCAN"},
    TypeRow{"list", RecordType::kList, nullptr, nullptr},
    TypeRow{"set", RecordType::kSet, "SCARD", "SSCAN"},
    TypeRow{"zset", RecordType::kSortedSet, "ZCARD", "ZSCAN"},
    TypeRow{"stream", RecordType::kEntry, nullptr, nullptr},
    TypeRow{"MBbloom--", RecordType::kBloom, nullptr, nullptr},
};

void append_read(Pipeline& out, RecordType record, const std::string& key) {
  switch (record) {
    case RecordType::kString:
      out.add("GET", key);
      return;
    case RecordType::kHash:
      out.add("HGETALL", key);
      return;
    case RecordType::kList:
      out.add("LRANGE", key, 0, -1);
      return;
    case RecordType::kSet:
      out.add("SMEMBERS", key);
      return;
    default:
      out.add("ZRANGE", key, 0, -1, "WITHSCORES");
  }
}

std::vector<std::string> strings(const Reply& array) {
  std::vector<std::string> out;
  out.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) out.emplace_back(string_at(array, i));
  return out;
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
    result_.server = redis::server_name(replies->front().text());
    if (result_.server.empty()) result_.server = "Redis";
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
            (pattern->pattern == kJobPattern) != jobs || is_of_anonymous_reader(key, *pattern))
          continue;
        if (saved_keys_.insert(key).second) selected.push_back(key);
      }
      line_.update({result_.keys, total_, ProgressLine::Clock::now() - began_, {}});
      return save(selected);
    });
  }

  // Keys that an anonymous reader's erasure deletes (Keys::keys_about()).
  bool is_of_anonymous_reader(const std::string& key, const KeyPattern& pattern) const {
    if (pattern.subject != redis::Subject::kReader || redis::names_article_first(pattern)) return false;
    const std::string name = redis::key_segment(*keys_.strip_prefix(key), pattern.segment);
    return is_anonymous_reader(name) ||
           (pattern.pattern == "hot:added:{*}" && http::Identity::is_cookie_visitor(name));
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
      if (auto ok = save_whole(*small); !ok) return ok;
    }
    return {};
  }

  const TypeRow& type_of(const std::string& key) const {
    return *std::ranges::find(kTypes, keys_.pattern_of(key)->type, &TypeRow::type);
  }

  // Saves the keys that are not read with a single command, and returns the others.
  Result<std::vector<std::string>> save_large(std::vector<std::string> keys) {
    Pipeline sizes;
    for (const std::string& key : keys) {
      const char* const command = type_of(key).size;
      sizes.add(command != nullptr ? command : "EXISTS", key);
    }
    FRESHET_TRY(replies, run_pipeline(redis_, sizes));
    std::vector<std::string> small;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const RecordType type = type_of(keys[i]).record;
      Result<void> ok;
      if (type == RecordType::kEntry)
        ok = save_stream(keys[i]);
      else if (type == RecordType::kBloom)
        ok = save_bloom(keys[i]);
      else if ((*replies)[i].integer().value_or(0) > kMaxWholeMembers)
        ok = save_in_pieces(keys[i]);
      else
        small.push_back(std::move(keys[i]));
      if (!ok) return tl::unexpected(ok.error());
    }
    return small;
  }

  Result<void> save_whole(const std::vector<std::string>& keys) {
    if (keys.empty()) return {};
    Pipeline pipeline;
    pipeline.add("TIME");
    for (const std::string& key : keys) {
      const auto family = with_dependents(key);
      if (family.size() > 1) pipeline.add("MULTI");
      for (const std::string& each : family)
        append_read(pipeline.add("PTTL", each), type_of(each).record, each);
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
      if (transaction.is_error()) return redis_error(transaction.error());
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
    if (value.is_error()) return skip_foreign(value.error());
    const bool gone = value.is_array() ? value.size() == 0 : value.is_nil();
    const std::int64_t ttl_ms = ttl.integer().value_or(-1);
    if (gone || (ttl_ms >= 0 && ttl_ms <= kMinTtlMs)) return {};
    DumpRecord record = new_record(key, now, ttl_ms);
    if (value.is_array())
      record.members = strings(value);
    else
      record.value = value.text();
    return dump_.add(record);
  }

  // The first record of a key.
  DumpRecord new_record(const std::string& key, std::int64_t now, std::int64_t ttl_ms) {
    DumpRecord record;
    record.type = type_of(key).record;
    record.key = key;
    record.expires_ms = ttl_ms < 0 ? 0 : now + ttl_ms;
    ++result_.keys;
    return record;
  }
  Result<DumpRecord> read_new_record(const std::string& key) {
    Pipeline pipeline;
    pipeline.add("TIME").add("PTTL", key);
    FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
    return new_record(key, time_ms(replies->front()), (*replies)[1].integer().value_or(-1));
  }

  Result<void> save_in_pieces(const std::string& key) {
    FRESHET_TRY(record, read_new_record(key));
    std::string cursor = "0";
    do {
      FRESHET_TRY(page, read_one(Pipeline().add(type_of(key).scan, key, cursor, "COUNT", kPieceMembers)));
      cursor = string_at(*page, 0);
      record->members = strings((*page)[1]);
      if (record->members.empty()) continue;
      if (auto ok = dump_.add(*record); !ok) return ok;
    } while (cursor != "0");
    return {};
  }

  Result<void> save_stream(const std::string& key) {
    std::string from = "-";
    std::optional<DumpRecord> record;
    for (;;) {
      Pipeline range;
      range.add("XRANGE", key, from, "+", "COUNT", kPieceMembers);
      FRESHET_TRY(replies, run_pipeline(redis_, range));
      const Reply& entries = replies->front();
      if (entries.is_error()) return skip_foreign(entries.error());
      if (entries.size() == 0) return {};
      if (!record) record = new_record(key, 0, -1);
      for (std::size_t i = 0; i < entries.size(); ++i) {
        record->members = strings(entries[i][1]);
        record->members.emplace(record->members.begin(), string_at(entries[i], 0));
        if (auto ok = dump_.add(*record); !ok) return ok;
      }
      from = "(" + record->members.front();
    }
  }

  // A filter may grow while it is read. If it got another layer, which makes the first chunk
  // longer, its chunks do not belong together, and it is read again.
  Result<void> save_bloom(const std::string& key) {
    FRESHET_TRY(record, read_new_record(key));
    for (;;) {
      std::vector<DumpRecord> chunks;
      std::int64_t position = 0;
      do {
        const auto chunk = read_one(Pipeline().add("BF.SCANDUMP", key, position));
        if (!chunk) return skip_foreign(chunk.error().detail);
        position = (*chunk)[0].integer().value_or(0);
        record->members = {std::to_string(position), std::string(string_at(*chunk, 1))};
        if (position != 0) chunks.push_back(*record);
      } while (position != 0);
      FRESHET_TRY(first, read_one(Pipeline().add("BF.SCANDUMP", key, 0)));
      if (chunks.empty()) return redis_error("no reply to BF.SCANDUMP");
      if (string_at(*first, 1).size() != chunks.front().members[1].size()) continue;
      for (const DumpRecord& each : chunks) {
        if (auto ok = dump_.add(each); !ok) return ok;
      }
      return {};
    }
  }

  Result<Reply> read_one(const Pipeline& command) {
    FRESHET_TRY(replies, run_pipeline(redis_, command));
    if (replies->front().is_error()) return tl::unexpected(redis::classify(replies->front().error()));
    return std::move(replies->front());
  }

  // A key with a name of ours and another type is not ours; other errors end the backup.
  Result<void> skip_foreign(std::string_view error) {
    if (!error.starts_with("WRONGTYPE")) return redis_error(error);
    ++result_.foreign_keys;
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
