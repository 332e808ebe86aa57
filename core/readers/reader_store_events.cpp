// Interactions and dismissals: the half of RedisReaderStore that writes to the recorder's stream.
#include <algorithm>
#include <set>
#include <utility>

#include "core/readers/reader_entries.h"
#include "core/readers/reader_replies.h"
#include "core/readers/reader_store.h"
#include "core/readers/spool_records.h"
#include "core/redis/fields.h"
#include "core/redis/script_errors.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {
constexpr std::int64_t kMaxEvents = 10000;
}  // namespace

using redis::Pipeline;

std::string interaction_member(Interaction kind, std::string_view item) {
  return std::string(1, readers::kind_of(kind).letter).append(":").append(item);
}

std::optional<InteractionMember> interaction_member(std::string_view member) {
  if (member.size() < 3 || member[1] != ':') return std::nullopt;
  const auto kind = readers::interaction_from_letter(member[0]);
  if (!kind) return std::nullopt;
  return InteractionMember{*kind, member.substr(2)};
}

// --- writes to the recorder's stream

void RedisReaderStore::append_applied_event(Pipeline& out, std::string_view reader, std::string_view event,
                                            UnixSeconds at) const {
  const std::string events = keys_.reader_event_ids(reader);
  out.add("ZREMRANGEBYSCORE", events, "-inf", unix_s(at - redis::kEventTtl));
  out.add("ZADD", events, "GT", unix_s(at), event);
  out.add("ZREMRANGEBYRANK", events, 0, -kMaxEvents - 1);
  out.add("EXPIRE", events, redis::kEventTtl.count());
}

void RedisReaderStore::append_write(Pipeline& effect, Pipeline& entry, const ReaderWrite& write,
                                    UnixSeconds at) const {
  const std::string_view reader = write.reader, item = write.item, reason = write.reason;
  const std::string stream = keys_.partition_for(reader).stream();
  effect.script(scripts::kReaderPut);
  if (!write.letter.empty()) {
    effect.key(keys_.interactions(reader))
        .key(keys_.archived_interactions(reader))
        .arg(interactions_.max_kept);
    effect.arg(readers_.bounded_ttl(reader, interactions_.ttl).count())
        .arg(interactions_.max_archived())
        .arg(0)
        .arg(1)
        .arg(unix_s(at));
    effect.arg(std::string(write.letter).append(":").append(item)).arg("");
    if (is_anonymous_reader(reader)) return;
    entry.add("XADD", stream, "*", "op", kOpInteraction, "reader", reader, "item", item, "kind", write.letter,
              "at", unix_s(at));
    return;
  }
  effect.key(keys_.not_interested(reader)).key(keys_.not_interested_reasons(reader)).arg(feedback_.max_items);
  effect.arg(readers_.bounded_ttl(reader, feedback_.ttl).count()).arg("").arg(0).arg(1);
  effect.arg(unix_s(at)).arg(item).arg(reason);
  if (is_anonymous_reader(reader)) return;
  entry.command(reason.empty() ? 11 : 13).arg("XADD").arg(stream).arg("*").arg("op").arg(kOpDismiss);
  entry.arg("reader").arg(reader).arg("item").arg(item).arg("at").arg(unix_s(at));
  if (!reason.empty()) entry.arg("reason").arg(reason);
}

Task<Result<std::vector<Result<void>>>> RedisReaderStore::apply_writes(
    const std::vector<ReaderWrite>& writes) {
  std::vector<Result<void>> answers(writes.size());
  if (writes.empty()) co_return answers;
  Pipeline reads, commands, entries, applied_events, rollback;
  reads.add("TIME");
  std::vector<std::size_t> length_replies(
      keys_.partition_count());  // by partition: index of the XLEN reply; 0 if nothing is written there
  std::vector<std::int64_t> stream_room(keys_.partition_count(), stream_max_);
  for (const ReaderWrite& each : writes) {
    std::size_t& reply = length_replies[keys_.partition_of(each.reader)];
    if (reply != 0 || is_anonymous_reader(each.reader)) continue;
    reply = reads.size();
    reads.add("XLEN", keys_.partition_for(each.reader).stream());
  }
  const std::size_t first_event_reply = reads.size();
  for (const ReaderWrite& each : writes) {
    reads.add("ZSCORE", keys_.reader_event_ids(each.reader), each.event);
    if (reject_unknown_) append_item_check(reads, each.item);
  }
  FRESHET_CO_TRY(read_replies, co_await redis_.run(reads));
  if (read_replies->front().is_error())
    co_return tl::unexpected(redis::classify(read_replies->front().error()));
  const UnixSeconds now = parse_time((*read_replies)[0], 0);
  auto next_reply = read_replies->begin() + static_cast<std::ptrdiff_t>(first_event_reply);
  for (std::size_t partition = 0; partition < stream_room.size(); ++partition)
    stream_room[partition] -= (*read_replies)[length_replies[partition]].integer().value_or(0);
  struct Written {
    std::size_t write;
    std::optional<std::size_t> entry;  // among `entries`; nullopt: not recorded
  };
  std::vector<Written> written;
  std::set<std::pair<std::string_view, std::string_view>> events;  // among these writes
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const ReaderWrite& each = writes[i];
    const redis::Reply& applied = *next_reply++;
    const bool is_duplicate = redis::to_int(applied.text()) > unix_s(now - redis::kEventTtl) ||
                              events.contains({each.reader, each.event});
    const unsigned partition = keys_.partition_of(each.reader);
    answers[i] = to_result(applied);
    if (answers[i]) answers[i] = to_result((*read_replies)[length_replies[partition]]);
    if (reject_unknown_ && !is_duplicate && answers[i])
      answers[i] = require_item(*next_reply, each.is_from_site);
    if (reject_unknown_) ++next_reply;
    if (is_duplicate || !answers[i]) continue;
    if (!is_anonymous_reader(each.reader) && stream_room[partition]-- <= 0) {
      answers[i] = redis::stream_full();
      continue;
    }
    const std::size_t entry = entries.size();
    append_write(commands, entries, each, std::min(each.at.value_or(now), now));
    written.push_back({i, entries.size() > entry ? std::optional(entry) : std::nullopt});
    if (each.event.empty()) continue;
    events.insert({each.reader, each.event});
    append_applied_event(applied_events, each.reader, each.event, now);
  }
  if (written.empty()) co_return answers;
  commands.barrier().append(entries).barrier().append(applied_events);
  FRESHET_CO_TRY(replies, co_await redis_.run(commands));
  for (std::size_t k = 0; k < written.size(); ++k) {
    const auto& [write, entry] = written[k];
    Result<void>& answer = answers[write];
    answer = to_result((*replies)[k]);
    if (answer && entry) answer = to_result((*replies)[written.size() + *entry]);
    const ReaderWrite& each = writes[write];
    if (answer)
      observe(ReaderId::trusted(std::string(each.reader)), ItemId::trusted(std::string(each.item)), each.at,
              false);
    if (!answer && !each.event.empty()) rollback.add("ZREM", keys_.reader_event_ids(each.reader), each.event);
  }
  if (!rollback.empty()) (void)co_await redis_.run(rollback);  // so that the caller can retry
  co_return answers;
}

// --- interactions

Task<Result<std::vector<Result<void>>>> RedisReaderStore::record_interactions(
    const std::vector<ReaderEvent>& events) {
  std::vector<ReaderWrite> writes;
  writes.reserve(events.size());
  for (const ReaderEvent& each : events)
    writes.push_back({each.reader.view(), each.item.view(), each.event.view(), each.at,
                      std::string_view(&readers::kind_of(each.kind).letter, 1)});
  auto answers = co_await apply_writes(writes);
  co_return answers;
}

Result<void> RedisReaderStore::spool_interaction(const ReaderEvent& event) {
  ReaderEvent stamped = event;
  if (stamped.event.empty()) stamped.event = EventId::trusted(new_event_id_());
  stamped.at = std::min(stamped.at, wall_now());
  return write_queue_.spool(to_spool_record(stamped));
}

// --- dismissals

namespace {
// The name in user:events under which the time of the latest undo is stored. No event id has it.
std::string undo_event_of(std::string_view item) {
  return std::string(1, kIdMark).append("undo:").append(item);
}
}  // namespace

Task<Result<void>> RedisReaderStore::dismiss(const Dismissal& dismissal) {
  const std::string_view reader = dismissal.reader.view(), item = dismissal.item.view();
  std::vector<ReaderWrite> writes;
  writes.push_back(
      {reader, item, dismissal.event.view(), dismissal.at, {}, dismissal.reason, dismissal.is_from_site});
  FRESHET_CO_TRY(answers, co_await apply_writes(writes));
  if (!answers->front() || !dismissal.at) co_return answers->front();
  // This dismissal was replayed from a spool. Check for a later undo only after writing it: undo
  // stores its time first and removes the dismissal then.
  Pipeline read;
  read.add("ZSCORE", keys_.reader_event_ids(reader), undo_event_of(item));
  FRESHET_CO_TRY(undone, co_await redis::run_one(redis_, read));
  const UnixSeconds at{seconds{redis::to_int(undone->text())}};
  Result<void> out;
  if (at >= *dismissal.at) out = co_await undo_dismissal(dismissal.reader, dismissal.item, at);
  co_return out;
}

Task<Result<std::unordered_set<ItemId>>> RedisReaderStore::dismissed_items(const ReaderId& reader) {
  Pipeline read;
  redis::append_newest_read(read, keys_.not_interested(reader.view()), wall_now() - feedback_.ttl,
                            feedback_.max_items);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, read));
  std::unordered_set<ItemId> out;
  for (std::size_t i = 0; i < reply->size(); ++i)
    out.insert(ItemId::trusted(std::string(redis::string_at(*reply, i))));
  co_return out;
}

Result<void> RedisReaderStore::spool_dismissal(const Dismissal& dismissal) {
  Dismissal stamped = dismissal;
  if (stamped.event.empty()) stamped.event = EventId::trusted(new_event_id_());
  stamped.at = wall_now();
  return write_queue_.spool(to_spool_record(stamped));
}

Task<Result<void>> RedisReaderStore::undo_dismissal(const ReaderId& reader, const ItemId& item,
                                                    OptionalTime at) {
  const std::string_view id = reader.view();
  Pipeline reads, undo;
  const std::string stream = keys_.partition_for(id).stream();
  reads.add("TIME").add("XLEN", stream).add("ZSCORE", keys_.not_interested(id), item.view());
  FRESHET_CO_TRY(read_replies, co_await redis::run_all(redis_, reads));
  const UnixSeconds now = parse_time((*read_replies)[0], 0), undone_at = std::min(at.value_or(now), now);
  // Dismissed again since.
  if (redis::to_int((*read_replies)[2].text()) > unix_s(undone_at)) co_return Result<void>();
  const bool is_recorded = !is_anonymous_reader(reader);
  // The times of undoing what was not dismissed would fill an anonymous reader's memory.
  if (!is_recorded && !at && (*read_replies)[2].is_nil()) co_return Result<void>();
  if (is_recorded && (*read_replies)[1].integer().value_or(0) >= stream_max_) co_return redis::stream_full();
  // An older dismissal may still be in a spool.
  append_applied_event(undo, id, undo_event_of(item.view()), undone_at);
  undo.script(scripts::kReaderUndismiss).key(keys_.not_interested(id)).key(keys_.not_interested_reasons(id));
  undo.arg(item.view()).arg(unix_s(undone_at));
  if (is_recorded)
    undo.barrier().add("XADD", stream, "*", "op", kOpUndismiss, "reader", id, "item", item.view(), "at",
                       unix_s(undone_at));
  FRESHET_CO_TRY(undone, co_await redis::run_all(redis_, undo));
  co_return Result<void>();
}

Result<void> RedisReaderStore::spool_undo_dismissal(const ReaderId& reader, const ItemId& item) {
  return write_queue_.spool(undo_spool_record(reader, item, wall_now()));
}

}  // namespace freshet::readers
