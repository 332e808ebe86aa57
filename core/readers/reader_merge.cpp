#include "core/readers/reader_merge.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "core/readers/reader_replies.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {

using redis::Pipeline;

constexpr std::size_t kMembersPerCommand = 500;
constexpr std::size_t kFingerprintDigits = 10;  // of user:earlier (reader_put.lua)

struct Entry {
  std::string member;
  UnixSeconds at;
  std::string reason;
};

// Both keys have the reader's hash tag. The TTL counts from the newest entry.
void append_put(Pipeline& out, const std::string& key, const std::string& companion, int max_members,
                seconds ttl, const std::string& max_archived, const std::vector<Entry>& entries) {
  for (std::size_t from = 0; from < entries.size(); from += kMembersPerCommand) {
    const auto part = std::span(entries).subspan(from, std::min(kMembersPerCommand, entries.size() - from));
    out.script(scripts::kReaderPut).key(key).key(companion);
    out.arg(max_members).arg(ttl.count()).arg(max_archived).arg("").arg(part.size());
    for (const Entry& each : part) out.arg(unix_s(each.at)).arg(each.member).arg(each.reason);
  }
}

std::vector<Entry> parse_entries(const redis::Reply& pairs) {
  std::vector<Entry> out;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    out.push_back({std::string(redis::string_at(pairs, i)), parse_time(pairs, i + 1), {}});
  return out;
}

// The source's fingerprints that the target lacks: the newest that fit, oldest first. The target
// may have twice as many as it keeps, until reader_put.lua removes the oldest.
std::string missing_archived(std::string_view target, std::string_view source, std::size_t limit) {
  std::unordered_set<std::string_view> known;
  for (std::size_t at = 0; at + kFingerprintDigits <= target.size(); at += kFingerprintDigits)
    known.insert(target.substr(at, kFingerprintDigits));
  const std::size_t max_bytes = 2 * limit * kFingerprintDigits;
  std::vector<std::string_view> kept;
  for (std::size_t end = source.size(); end >= kFingerprintDigits; end -= kFingerprintDigits) {
    if (target.size() + (kept.size() + 1) * kFingerprintDigits > max_bytes) break;
    const std::string_view print = source.substr(end - kFingerprintDigits, kFingerprintDigits);
    if (known.insert(print).second) kept.push_back(print);
  }
  std::string out;
  for (auto each = kept.rbegin(); each != kept.rend(); ++each) out.append(*each);
  return out;
}

template <class MemberOf, class Entries>
void append_removal(Pipeline& out, std::string_view command, const std::string& key, const Entries& entries,
                    const MemberOf& member_of) {
  for (std::size_t from = 0; from < entries.size(); from += kMembersPerCommand) {
    const auto part = std::span(entries).subspan(from, std::min(kMembersPerCommand, entries.size() - from));
    out.command(2 + part.size()).arg(command).arg(key);
    for (const auto& each : part) out.arg(member_of(each));
  }
}

}  // namespace

Task<Result<CopiedRecords>> copy_records(redis::Redis& redis, const Settings& settings,
                                         const redis::Keys& keys, const ReaderId& from, const ReaderId& to) {
  Pipeline reads, writes;
  reads.add("ZRANGE", keys.interactions(from.view()), 0, -1, "WITHSCORES");
  reads.add("ZRANGE", keys.not_interested(from.view()), 0, -1, "WITHSCORES");
  reads.add("HGETALL", keys.not_interested_reasons(from.view()));
  reads.add("GET", keys.archived_interactions(from.view()));
  reads.add("GET", keys.archived_interactions(to.view()));
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, reads));
  const redis::Replies& found = *replies;
  std::unordered_map<std::string_view, std::string_view> reasons;
  for (std::size_t i = 0; i + 1 < found[2].size(); i += 2)
    reasons.emplace(redis::string_at(found[2], i), redis::string_at(found[2], i + 1));

  CopiedRecords out;
  const std::vector<Entry> interactions = parse_entries(found[0]);
  std::vector<Entry> dismissals = parse_entries(found[1]);
  for (const Entry& each : interactions) out.interactions.emplace_back(each.member, each.at);
  for (Entry& each : dismissals) {
    if (const auto reason = reasons.find(each.member); reason != reasons.end()) each.reason = reason->second;
    out.dismissals.push_back({{to, ItemId::trusted(each.member), each.reason, {}, {}}, each.at});
  }
  const InteractionSettings& kept = settings.interactions;
  const std::string archive = keys.archived_interactions(to.view());
  const std::string_view archived = found[3].text();
  out.has_archived = !archived.empty();
  // Appended, since a worker may append, too.
  if (const std::string missing =
          missing_archived(found[4].text(), archived, static_cast<std::size_t>(kept.max_archived()));
      !missing.empty())
    writes.add("APPEND", archive, missing).add("EXPIRE", archive, kept.ttl.count());
  append_put(writes, keys.interactions(to.view()), archive, kept.max_kept, kept.ttl,
             std::to_string(kept.max_archived()), interactions);
  append_put(writes, keys.not_interested(to.view()), keys.not_interested_reasons(to.view()),
             settings.feedback.max_items, settings.feedback.ttl, {}, dismissals);
  if (writes.empty()) co_return out;
  FRESHET_CO_TRY(written, co_await redis::run_all(redis, writes));
  co_return out;
}

Task<Result<void>> remove_records(redis::Redis& redis, const redis::Keys& keys, const ReaderId& from,
                                  const CopiedRecords& copied) {
  Pipeline out;
  append_removal(out, "ZREM", keys.interactions(from.view()), copied.interactions,
                 [](const auto& each) -> std::string_view { return each.first; });
  const auto item_of = [](const DismissalRecord& each) { return each.dismissal.item.view(); };
  if (!copied.dismissals.empty()) {
    out.add("MULTI");  // a reason without its dismissal would stay
    append_removal(out, "ZREM", keys.not_interested(from.view()), copied.dismissals, item_of);
    append_removal(out, "HDEL", keys.not_interested_reasons(from.view()), copied.dismissals, item_of);
    out.add("EXEC");
  }
  if (copied.has_archived) out.add("UNLINK", keys.archived_interactions(from.view()));
  if (out.empty()) co_return Result<void>();
  FRESHET_CO_TRY(removed, co_await redis::run_all(redis, out));
  co_return Result<void>();
}

}  // namespace freshet::readers
