#include "core/recorder/batch.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_set>

#include "core/base/log.h"
#include "core/base/time.h"
#include "core/base/utf8.h"
#include "core/items/view_count_buffer.h"
#include "core/readers/reader_entries.h"
#include "core/redis/fields.h"

namespace freshet::recorder {
namespace {

using redis::field_value;

bool is_time(std::string_view text) {
  const auto value = redis::parse<std::int64_t>(text);
  return value && *value >= 0 && *value <= kMaxUnixSeconds;
}

bool is_weight(std::string_view text) {
  const auto value = redis::parse<double>(text);
  return value && *value >= 0 && *value <= items::kMaxWeight;
}

// Rejects values that a worker cannot have written.
Result<void> check_item_values(const items::ItemValues& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view name = items::kItemFields[i];
    const bool date =
        name == "published_at" || ((name == "update_time" || name == "expires_at") && !values[i].empty());
    if (date && !is_time(values[i])) return fail(ErrorCode::kInvalid, "bad_time", std::string(name));
    if (name == "weight" && !values[i].empty() && !is_weight(values[i]))
      return fail(ErrorCode::kInvalid, "bad_number", std::string(name));
    if (!utf8::is_valid(values[i])) return fail(ErrorCode::kInvalid, "bad_utf8", std::string(name));
    if (name != "tags") continue;
    for (const std::string_view tag : redis::split_words(values[i], kIdSeparator)) {
      if (auto ok = parse_tag(tag, "tags"); !ok) return tl::unexpected(ok.error());
    }
  }
  return {};
}

Result<ParsedEntry> parse_item_entry(const redis::Reply& fields, std::string_view op) {
  FRESHET_TRY(id, ItemId::parse(field_value(fields, "id"), "id"));
  ItemChange change;
  change.item.id = *id;
  if (op == items::kOpDelete) return change;
  items::ItemValues values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = field_value(fields, items::kItemFields[i]);
  if (auto ok = check_item_values(values); !ok) return tl::unexpected(ok.error());
  auto item = items::parse_item(*id, values);
  if (!item) return fail(ErrorCode::kInvalid, "bad_time", "published_at");
  change.operation = ItemChange::Operation::kPut;
  change.item = std::move(*item);
  return change;
}

Result<UnixSeconds> event_time(const redis::Reply& fields) {
  const std::string_view text = field_value(fields, "at");
  if (!is_time(text)) return fail(ErrorCode::kInvalid, "bad_time", "at");
  return UnixSeconds{seconds{redis::parse_or_zero<std::int64_t>(text)}};
}

Result<ParsedEntry> parse_interaction(const redis::Reply& fields, const ReaderId& reader,
                                      const ItemId& item) {
  const std::string_view letter = field_value(fields, "kind");
  const auto kind = letter.size() == 1 ? readers::interaction_from_letter(letter[0]) : std::nullopt;
  if (!kind) return fail(ErrorCode::kInvalid, "bad_kind", "kind");
  FRESHET_TRY(at, event_time(fields));
  return ReaderChange(readers::ReaderEvent{reader, item, *kind, *at, {}});
}

Result<ParsedEntry> parse_dismissal(const redis::Reply& fields, const ReaderId& reader, const ItemId& item) {
  FRESHET_TRY(at, event_time(fields));
  const std::string_view reason = field_value(fields, "reason");
  if (!utf8::is_valid(reason)) return fail(ErrorCode::kInvalid, "bad_utf8", "reason");
  return ReaderChange(DismissalChange{{reader, item, std::string(reason), {}}, *at});
}

Result<ParsedEntry> parse_follow(const redis::Reply& fields, const ReaderId& reader, std::string_view op) {
  const auto author = AuthorId::parse(field_value(fields, "author"), "author");
  if (!author) return fail(ErrorCode::kInvalid, "bad_id", "author");
  if (op == readers::kOpUnfollow) return ReaderChange(FollowRemoval{reader, *author});
  FRESHET_TRY(at, event_time(fields));
  return ReaderChange(readers::Follow{reader, *author, *at});
}

// The entry of a merge may name an anonymous reader.
Result<ParsedEntry> parse_merge(const redis::Reply& fields, std::string_view) {
  std::string_view id = field_value(fields, "reader");
  if (is_anonymous_reader(id)) id.remove_prefix(1);
  auto from = ReaderId::parse(id, "reader");
  if (!from) return fail(ErrorCode::kInvalid, "bad_id", "reader");
  auto to = ReaderId::parse(field_value(fields, "to"), "to");
  if (!to) return fail(ErrorCode::kInvalid, "bad_id", "to");
  const auto job = EventId::parse(field_value(fields, "job"), "job");
  if (!job) return fail(ErrorCode::kInvalid, "bad_id", "job");
  MergeJob out{{}, ReaderId::trusted(std::string(field_value(fields, "reader"))), std::move(*to), job->str()};
  return out;
}

Result<ParsedEntry> parse_fanout(const redis::Reply& fields, std::string_view) {
  FanoutJob out;
  auto author = AuthorId::parse(field_value(fields, "author"), "author");
  if (!author) return fail(ErrorCode::kInvalid, "bad_id", "author");
  out.author = std::move(*author);
  for (const std::string_view each : redis::split_words(field_value(fields, "items"), kIdSeparator)) {
    auto item = ItemId::parse(each, "items");
    if (!item) return fail(ErrorCode::kInvalid, "bad_id", "items");
    out.items.push_back(std::move(*item));
  }
  if (out.items.empty()) return fail(ErrorCode::kInvalid, "bad_id", "items");
  const auto upto = redis::parse<std::int64_t>(field_value(fields, "upto"));
  if (!upto || *upto < 0) return fail(ErrorCode::kInvalid, "bad_score", "upto");
  out.up_to_score = *upto;
  const auto job = EventId::parse(field_value(fields, "job"), "job");
  if (!job) return fail(ErrorCode::kInvalid, "bad_id", "job");
  out.job_id = job->str();
  return out;
}

// Readers must not appear in the log, so an error names the invalid field but not its value.
Result<ParsedEntry> parse_reader_entry(const redis::Reply& fields, std::string_view op) {
  const auto reader = ReaderId::parse(field_value(fields, "reader"), "reader");
  if (!reader) return fail(ErrorCode::kInvalid, "bad_id", "reader");
  if (op == readers::kOpErase) {
    const auto job = EventId::parse(field_value(fields, "job"), "job");
    if (!job) return fail(ErrorCode::kInvalid, "bad_id", "job");
    return ErasureJob{{}, *reader, job->str()};
  }
  if (op == readers::kOpFollow || op == readers::kOpUnfollow) return parse_follow(fields, *reader, op);
  const auto item = ItemId::parse(field_value(fields, "item"), "item");
  if (!item) return fail(ErrorCode::kInvalid, "bad_id", "item");
  if (op == readers::kOpInteraction) return parse_interaction(fields, *reader, *item);
  if (op == readers::kOpDismiss) return parse_dismissal(fields, *reader, *item);
  FRESHET_TRY(at, event_time(fields));
  return ReaderChange(DismissalRemoval{*reader, *item, *at});
}

constexpr std::int64_t kMaxViews = 1'000'000'000;  // so that sums do not overflow

Result<void> parse_covisits(std::string_view text, ViewCounts& out) {
  const std::string member(items::kCovisitsField);
  const auto words = redis::split_words(text, kIdSeparator);
  if (words.size() % 3 != 1) return fail(ErrorCode::kInvalid, "bad_counts", member);
  if (!is_time(words.front())) return fail(ErrorCode::kInvalid, "bad_time", member);
  out.covisits_at = UnixSeconds{seconds{redis::parse_or_zero<std::int64_t>(words.front())}};
  for (std::size_t i = 1; i < words.size(); i += 3) {
    auto item = ItemId::parse(words[i], member), next = ItemId::parse(words[i + 1], member);
    if (!item || !next || *item == *next) return fail(ErrorCode::kInvalid, "bad_id", member);
    const auto count = redis::parse_or_zero<std::int64_t>(words[i + 2]);
    if (count <= 0 || count > kMaxViews) return fail(ErrorCode::kInvalid, "bad_number", member);
    out.covisits.push_back({std::move(*item), std::move(*next), count});
  }
  return {};
}

Result<ParsedEntry> parse_view_counts(const redis::Reply& fields, std::string_view) {
  ViewCounts out;
  const std::string_view covisits = field_value(fields, items::kCovisitsField);
  if (!covisits.empty()) {
    if (auto ok = parse_covisits(covisits, out); !ok) return tl::unexpected(ok.error());
  }
  const std::string_view views = field_value(fields, items::kCountsField);
  if (views.empty() && !covisits.empty()) return out;
  const auto words = redis::split_words(views, kIdSeparator);
  if (words.empty() || words.size() % 3 != 0) return fail(ErrorCode::kInvalid, "bad_counts", "views");
  for (std::size_t i = 0; i < words.size(); i += 3) {
    const auto bucket = redis::parse_or_zero<std::int64_t>(words[i]);
    if (!is_time(words[i]) || bucket % items::kViewBucket.count() != 0)
      return fail(ErrorCode::kInvalid, "bad_time", "views");
    auto item = ItemId::parse(words[i + 1], "views");
    if (!item) return fail(ErrorCode::kInvalid, "bad_id", "views");
    const auto count = redis::parse_or_zero<std::int64_t>(words[i + 2]);
    if (count <= 0 || count > kMaxViews) return fail(ErrorCode::kInvalid, "bad_number", "views");
    out.counts.push_back({UnixSeconds{seconds{bucket}}, std::move(*item), count});
  }
  return out;
}

using ParseFunction = Result<ParsedEntry> (*)(const redis::Reply& fields, std::string_view op);
struct OpRow {
  std::string_view op;
  ParseFunction parse;
};
constexpr std::array kOps{
    OpRow{items::kOpPut, parse_item_entry},         OpRow{items::kOpDelete, parse_item_entry},
    OpRow{items::kOpCounts, parse_view_counts},     OpRow{readers::kOpInteraction, parse_reader_entry},
    OpRow{readers::kOpDismiss, parse_reader_entry}, OpRow{readers::kOpUndismiss, parse_reader_entry},
    OpRow{readers::kOpFollow, parse_reader_entry},  OpRow{readers::kOpUnfollow, parse_reader_entry},
    OpRow{readers::kOpErase, parse_reader_entry},   OpRow{readers::kOpMerge, parse_merge},
    OpRow{readers::kOpFanout, parse_fanout},
};

// Keeps the last change of each item.
void keep_last_changes(std::vector<ItemChange>& changes) {
  std::unordered_set<std::string> seen;
  std::vector<ItemChange> last;
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    if (seen.insert(change->item.id.str()).second) last.push_back(std::move(*change));
  }
  std::reverse(last.begin(), last.end());
  changes = std::move(last);
}

}  // namespace

Result<ParsedEntry> parse_entry(const redis::Reply& fields) {
  const std::string_view op = field_value(fields, "op");
  for (const OpRow& row : kOps) {
    if (row.op == op) return row.parse(fields, op);
  }
  return fail(ErrorCode::kInvalid, "unknown_op", "op");
}

void EntryBatch::append(EntryBatch more) {
  const auto move = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move(entries, more.entries);
  move(item_changes, more.item_changes);
  move(reader_changes, more.reader_changes);
  move(view_counts, more.view_counts);
  move(erasures, more.erasures);
  move(merges, more.merges);
  move(fanouts, more.fanouts);
  malformed_count += more.malformed_count;
}

EntryBatch parse_batch(const redis::Reply& entries, unsigned stream) {
  EntryBatch batch;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const redis::Reply entry = entries[i];
    EntryId entry_id{stream, std::string(redis::string_at(entry, 0))};
    if (entry[1].is_array()) {
      auto parsed = parse_entry(entry[1]);
      if (!parsed) {
        ++batch.malformed_count;
        log::warning("stream_entry_rejected", {{"entry", entry_id.id},
                                               {"reason", std::string(parsed.error().reason)},
                                               {"field", parsed.error().member}});
      } else if (auto* const erasure = std::get_if<ErasureJob>(&*parsed)) {
        erasure->entry = std::move(entry_id);
        batch.erasures.push_back(std::move(*erasure));
        continue;
      } else if (auto* const merge = std::get_if<MergeJob>(&*parsed)) {
        merge->entry = std::move(entry_id);
        batch.merges.push_back(std::move(*merge));
        continue;
      } else if (auto* const fanout = std::get_if<FanoutJob>(&*parsed)) {
        fanout->entry = std::move(entry_id);
        batch.fanouts.push_back(std::move(*fanout));
        continue;
      } else if (auto* const counts = std::get_if<ViewCounts>(&*parsed)) {
        counts->entry = entry_id;
        batch.view_counts.push_back(std::move(*counts));
      } else if (auto* const change = std::get_if<ItemChange>(&*parsed)) {
        batch.item_changes.push_back(std::move(*change));
      } else {
        batch.reader_changes.push_back(std::get<ReaderChange>(std::move(*parsed)));
      }
    }
    batch.entries.push_back(std::move(entry_id));
  }
  keep_last_changes(batch.item_changes);
  return batch;
}

}  // namespace freshet::recorder
