// What readers did and do not want: the half of RedisReaderStore that tells the recorder.
#include <algorithm>

#include "core/readers/reader_entries.h"
#include "core/readers/reader_replies.h"
#include "core/readers/reader_store.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {

using redis::Pipeline;

void optional_number(Pipeline& pipeline, const std::optional<std::int64_t>& value) {
  value ? pipeline.arg(*value) : pipeline.arg("");
}

}  // namespace

std::string interaction_member(Interaction kind, std::string_view item) {
  return std::string(1, readers::kind_of(kind).letter).append(":").append(item);
}

std::optional<InteractionMember> interaction_member(std::string_view member) {
  if (member.size() < 3 || member[1] != ':') return std::nullopt;
  const auto kind = readers::interaction_of_letter(member[0]);
  if (!kind) return std::nullopt;
  return InteractionMember{*kind, member.substr(2)};
}

// --- interactions

void RedisReaderStore::append_interaction(Pipeline& out, const ReaderEvent& event, UnixSeconds at,
                                          Room room) const {
  const std::string_view reader = event.reader.view(), item = event.item.view();
  const std::string letter(1, readers::kind_of(event.kind).letter);
  out.script(scripts::kReaderInteract, reject_unknown_ ? 5U : 4U, 9)
      .arg(keys_.interactions(reader))
      .arg(keys_.reader_events(reader))
      .arg(keys_.earlier(reader));
  out.arg(keys_.stream());
  if (reject_unknown_) out.arg(keys_.item(item));
  out.arg(reader).arg(item).arg(letter).arg(unix_s(at)).arg(event.event.view());
  out.arg(interactions_.max_kept).arg(interactions_.max_earlier()).arg(interactions_.ttl.count());
  optional_number(out, room);
}

Task<Result<std::vector<Result<void>>>> RedisReaderStore::interact(const std::vector<ReaderEvent>& events) {
  std::vector<Result<void>> answers;
  if (events.empty()) co_return answers;
  Pipeline command;
  for (const ReaderEvent& each : events) append_interaction(command, each, each.at, stream_max_);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (const redis::Reply& reply : *replies) answers.push_back(outcome(reply));
  co_return answers;
}

Result<void> RedisReaderStore::interact_later(const ReaderEvent& event) {
  ReaderEvent kept = event;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  Pipeline out;
  append_interaction(out, kept, std::min(kept.at, wall_now()), std::nullopt);
  return deferred_.spool(std::move(out));
}

// --- not interested

void RedisReaderStore::append_dismissal(Pipeline& out, const Dismissal& dismissal, Time at, Room room) const {
  const std::string_view reader = dismissal.reader.view(), item = dismissal.item.view();
  out.script(scripts::kReaderDismiss, reject_unknown_ ? 5U : 4U, 8)
      .arg(keys_.not_interested(reader))
      .arg(keys_.reader_events(reader))
      .arg(keys_.not_interested_why(reader));
  out.arg(keys_.stream());
  if (reject_unknown_) out.arg(keys_.item(item));
  out.arg(reader).arg(item).arg(dismissal.reason);
  redis::optional_time(out, at);
  out.arg(dismissal.event.view()).arg(feedback_.most).arg(feedback_.ttl.count());
  optional_number(out, room);
}

Task<Result<void>> RedisReaderStore::dismiss(const Dismissal& dismissal) {
  Pipeline command;
  append_dismissal(command, dismissal, std::nullopt, stream_max_);
  auto applied = co_await apply(command);
  co_return applied;
}

Result<void> RedisReaderStore::dismiss_later(const Dismissal& dismissal) {
  Dismissal kept = dismissal;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  Pipeline out;
  append_dismissal(out, kept, wall_now(), std::nullopt);
  return deferred_.spool(std::move(out));
}

void RedisReaderStore::append_undo(Pipeline& out, const ReaderId& reader, const ItemId& item, Time at,
                                   Room room) const {
  out.script(scripts::kReaderUndismiss, 4, 4)
      .arg(keys_.not_interested(reader.view()))
      .arg(keys_.reader_events(reader.view()))
      .arg(keys_.not_interested_why(reader.view()));
  out.arg(keys_.stream());
  out.arg(reader.view()).arg(item.view());
  redis::optional_time(out, at);
  optional_number(out, room);
}

Task<Result<void>> RedisReaderStore::undo_dismissal(const ReaderId& reader, const ItemId& item) {
  Pipeline command;
  append_undo(command, reader, item, std::nullopt, stream_max_);
  auto applied = co_await apply(command);
  co_return applied;
}

Result<void> RedisReaderStore::undo_dismissal_later(const ReaderId& reader, const ItemId& item) {
  Pipeline out;
  append_undo(out, reader, item, wall_now(), std::nullopt);
  return deferred_.spool(std::move(out));
}

}  // namespace freshet::readers
