// What readers did and do not want: the half of RedisReaderStore that tells the recorder.
#include <algorithm>
#include <set>
#include <utility>

#include "core/readers/reader_entries.h"
#include "core/readers/reader_replies.h"
#include "core/readers/reader_store.h"
#include "core/readers/stored_events.h"
#include "core/redis/script_words.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {
constexpr std::int64_t kMostEvents = 10000;
}  // namespace

using redis::Pipeline;

std::string interaction_member(Interaction kind, std::string_view item) {
  return std::string(1, readers::kind_of(kind).letter).append(":").append(item);
}

std::optional<InteractionMember> interaction_member(std::string_view member) {
  if (member.size() < 3 || member[1] != ':') return std::nullopt;
  const auto kind = readers::interaction_of_letter(member[0]);
  if (!kind) return std::nullopt;
  return InteractionMember{*kind, member.substr(2)};
}

// --- what the recorder is told of

void RedisReaderStore::append_memory(Pipeline& out, std::string_view reader, std::string_view event,
                                     UnixSeconds at) const {
  const std::string events = keys_.reader_event_ids(reader);
  out.add("ZREMRANGEBYSCORE", events, "-inf", unix_s(at - redis::kEventTtl));
  out.add("ZADD", events, "GT", unix_s(at), event);
  out.add("ZREMRANGEBYRANK", events, 0, -kMostEvents - 1);
  out.add("EXPIRE", events, redis::kEventTtl.count());
}

void RedisReaderStore::append_change(Pipeline& effect, Pipeline& entry, const Change& change,
                                     UnixSeconds at) const {
  const std::string_view reader = change.reader, item = change.item, reason = change.reason;
  const std::string stream = keys_.partition_for(reader).stream();
  effect.script(scripts::kReaderPut);
  if (!change.letter.empty()) {
    effect.key(keys_.interactions(reader)).key(keys_.archived_interactions(reader)).arg(interactions_.max_kept);
    effect.arg(interactions_.ttl.count()).arg(interactions_.max_archived()).arg(0).arg(unix_s(at));
    effect.arg(std::string(change.letter).append(":").append(item)).arg("");
    entry.add("XADD", stream, "*", "op", kOpInteraction, "reader", reader, "item", item, "kind",
              change.letter, "at", unix_s(at));
    return;
  }
  effect.key(keys_.not_interested(reader)).key(keys_.not_interested_reasons(reader)).arg(feedback_.max_items);
  effect.arg(feedback_.ttl.count()).arg("").arg(0).arg(unix_s(at)).arg(item).arg(reason);
  entry.command(reason.empty() ? 11 : 13).arg("XADD").arg(stream).arg("*").arg("op").arg(kOpDismiss);
  entry.arg("reader").arg(reader).arg("item").arg(item).arg("at").arg(unix_s(at));
  if (!reason.empty()) entry.arg("reason").arg(reason);
}

Task<Result<std::vector<Result<void>>>> RedisReaderStore::write(const std::vector<Change>& changes) {
  std::vector<Result<void>> answers(changes.size());
  if (changes.empty()) co_return answers;
  Pipeline look, commands, entries, memory, forget;
  look.add("TIME");
  std::vector<std::size_t> waiting(
      keys_.partition_count());  // of each group: which reply; 0: nothing is written there
  std::vector<std::int64_t> room(keys_.partition_count(), stream_max_);
  for (const Change& each : changes) {
    std::size_t& reply = waiting[keys_.partition_of(each.reader)];
    if (reply != 0) continue;
    reply = look.size();
    look.add("XLEN", keys_.partition_for(each.reader).stream());
  }
  const std::size_t first = look.size();
  for (const Change& each : changes) {
    look.add("ZSCORE", keys_.reader_event_ids(each.reader), each.event);
    if (reject_unknown_) append_known(look, each.item);
  }
  FRESHET_CO_TRY(found, co_await redis_.run(look));
  if (found->front().is_error()) co_return tl::unexpected(redis::classify(found->front().error()));
  const UnixSeconds now = time_at((*found)[0], 0);
  auto known = found->begin() + static_cast<std::ptrdiff_t>(first);
  for (std::size_t group = 0; group < room.size(); ++group)
    room[group] -= (*found)[waiting[group]].integer().value_or(0);
  std::vector<std::size_t> written;
  std::set<std::pair<std::string_view, std::string_view>> events;  // of these changes
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Change& each = changes[i];
    const redis::Reply& applied = *known++;
    const bool again = redis::to_int(applied.text()) > unix_s(now - redis::kEventTtl) ||
                       events.contains({each.reader, each.event});
    const unsigned group = keys_.partition_of(each.reader);
    answers[i] = outcome(applied);
    if (answers[i]) answers[i] = outcome((*found)[waiting[group]]);
    if (reject_unknown_ && !again && answers[i]) answers[i] = expect_known(*known);
    if (reject_unknown_) ++known;
    if (again || !answers[i]) continue;
    if (room[group]-- <= 0) {
      answers[i] = redis::stream_full();
      continue;
    }
    append_change(commands, entries, each, std::min(each.at.value_or(now), now));
    written.push_back(i);
    if (each.event.empty()) continue;
    events.insert({each.reader, each.event});
    append_memory(memory, each.reader, each.event, now);
  }
  if (written.empty()) co_return answers;
  commands.barrier().append(entries).barrier().append(memory);
  FRESHET_CO_TRY(replies, co_await redis_.run(commands));
  for (std::size_t k = 0; k < written.size(); ++k) {
    Result<void>& answer = answers[written[k]];
    answer = outcome((*replies)[k]);
    if (answer) answer = outcome((*replies)[written.size() + k]);
    const Change& each = changes[written[k]];
    if (!answer && !each.event.empty()) forget.add("ZREM", keys_.reader_event_ids(each.reader), each.event);
  }
  if (!forget.empty()) (void)co_await redis_.run(forget);  // it may be tried again
  co_return answers;
}

// --- interactions

Task<Result<std::vector<Result<void>>>> RedisReaderStore::interact(const std::vector<ReaderEvent>& events) {
  std::vector<Change> changes;
  changes.reserve(events.size());
  for (const ReaderEvent& each : events)
    changes.push_back({each.reader.view(), each.item.view(), each.event.view(), each.at,
                       std::string_view(&readers::kind_of(each.kind).letter, 1)});
  auto answers = co_await write(changes);
  co_return answers;
}

Result<void> RedisReaderStore::interact_later(const ReaderEvent& event) {
  ReaderEvent kept = event;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  kept.at = std::min(kept.at, wall_now());
  return deferred_.spool(stored(kept));
}

// --- not interested

namespace {
// Of the memory of what was applied: when a dismissal was undone.
std::string undoing_of(std::string_view item) { return std::string("undo:").append(item); }
}  // namespace

Task<Result<void>> RedisReaderStore::dismiss(const Dismissal& dismissal) {
  const std::string_view reader = dismissal.reader.view(), item = dismissal.item.view();
  std::vector<Change> changes;
  changes.push_back({reader, item, dismissal.event.view(), dismissal.at, {}, dismissal.reason});
  FRESHET_CO_TRY(answers, co_await write(changes));
  if (!answers->front() || !dismissal.at) co_return answers->front();
  // It waited in a spool. Looked at behind it: who undoes it later says so first and then looks.
  Pipeline look;
  look.add("ZSCORE", keys_.reader_event_ids(reader), undoing_of(item));
  FRESHET_CO_TRY(undone, co_await redis::run_one(redis_, look));
  const UnixSeconds at{seconds{redis::to_int(undone->text())}};
  Result<void> out;
  if (at >= *dismissal.at) out = co_await undo_dismissal(dismissal.reader, dismissal.item, at);
  co_return out;
}

Result<void> RedisReaderStore::dismiss_later(const Dismissal& dismissal) {
  Dismissal kept = dismissal;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  kept.at = wall_now();
  return deferred_.spool(stored(kept));
}

Task<Result<void>> RedisReaderStore::undo_dismissal(const ReaderId& reader, const ItemId& item, Time at) {
  const std::string_view id = reader.view();
  Pipeline look, undo;
  const std::string stream = keys_.partition_for(id).stream();
  look.add("TIME").add("XLEN", stream).add("ZSCORE", keys_.not_interested(id), item.view());
  FRESHET_CO_TRY(found, co_await redis::run_all(redis_, look));
  const UnixSeconds now = time_at((*found)[0], 0), when = std::min(at.value_or(now), now);
  if (redis::to_int((*found)[2].text()) > unix_s(when)) co_return Result<void>();  // it came later
  if ((*found)[1].integer().value_or(0) >= stream_max_) co_return redis::stream_full();
  append_memory(undo, id, undoing_of(item.view()), when);  // one from before may still wait in a spool
  undo.script(scripts::kReaderUndismiss).key(keys_.not_interested(id)).key(keys_.not_interested_reasons(id));
  undo.arg(item.view()).arg(unix_s(when));
  undo.barrier().add("XADD", stream, "*", "op", kOpUndismiss, "reader", id, "item", item.view(), "at",
                  unix_s(when));
  FRESHET_CO_TRY(undone, co_await redis::run_all(redis_, undo));
  co_return Result<void>();
}

Result<void> RedisReaderStore::undo_dismissal_later(const ReaderId& reader, const ItemId& item) {
  return deferred_.spool(stored_undo(reader, item, wall_now()));
}

}  // namespace freshet::readers
