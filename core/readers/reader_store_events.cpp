// What readers did and do not want: the half of RedisReaderStore that tells the recorder.
#include <algorithm>

#include "core/readers/reader_entries.h"
#include "core/readers/reader_replies.h"
#include "core/readers/reader_store.h"
#include "core/readers/stored_events.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
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

// --- interactions

void RedisReaderStore::append_interaction(Pipeline& out, const ReaderEvent& event) const {
  const std::string_view reader = event.reader.view(), item = event.item.view();
  const std::string letter(1, readers::kind_of(event.kind).letter);
  out.script(scripts::kReaderInteract)
      .key(keys_.interactions(reader))
      .key(keys_.reader_events(reader))
      .key(keys_.earlier(reader));
  out.key(keys_.stream());
  if (reject_unknown_) out.key(keys_.item(item));
  out.arg(reader).arg(item).arg(letter).arg(unix_s(event.at)).arg(event.event.view());
  out.arg(interactions_.max_kept).arg(interactions_.max_earlier()).arg(interactions_.ttl.count());
  out.arg(stream_max_);
}

Task<Result<std::vector<Result<void>>>> RedisReaderStore::interact(const std::vector<ReaderEvent>& events) {
  std::vector<Result<void>> answers;
  if (events.empty()) co_return answers;
  Pipeline command;
  for (const ReaderEvent& each : events) append_interaction(command, each);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (const redis::Reply& reply : *replies) answers.push_back(outcome(reply));
  co_return answers;
}

Result<void> RedisReaderStore::interact_later(const ReaderEvent& event) {
  ReaderEvent kept = event;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  kept.at = std::min(kept.at, wall_now());
  return deferred_.spool(stored(kept));
}

// --- not interested

Task<Result<void>> RedisReaderStore::dismiss(const Dismissal& dismissal) {
  const std::string_view reader = dismissal.reader.view(), item = dismissal.item.view();
  Pipeline command;
  command.script(scripts::kReaderDismiss)
      .key(keys_.not_interested(reader))
      .key(keys_.reader_events(reader))
      .key(keys_.not_interested_why(reader))
      .key(keys_.stream());
  if (reject_unknown_) command.key(keys_.item(item));
  command.arg(reader).arg(item).arg(dismissal.reason);
  redis::optional_time(command, dismissal.at);
  command.arg(dismissal.event.view()).arg(feedback_.most).arg(feedback_.ttl.count()).arg(stream_max_);
  auto applied = co_await apply(command);
  co_return applied;
}

Result<void> RedisReaderStore::dismiss_later(const Dismissal& dismissal) {
  Dismissal kept = dismissal;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  kept.at = wall_now();
  return deferred_.spool(stored(kept));
}

Task<Result<void>> RedisReaderStore::undo_dismissal(const ReaderId& reader, const ItemId& item, Time at) {
  Pipeline command;
  command.script(scripts::kReaderUndismiss)
      .key(keys_.not_interested(reader.view()))
      .key(keys_.reader_events(reader.view()))
      .key(keys_.not_interested_why(reader.view()))
      .key(keys_.stream());
  command.arg(reader.view()).arg(item.view());
  redis::optional_time(command, at);
  command.arg(stream_max_);
  auto applied = co_await apply(command);
  co_return applied;
}

Result<void> RedisReaderStore::undo_dismissal_later(const ReaderId& reader, const ItemId& item) {
  return deferred_.spool(stored_undo(reader, item, wall_now()));
}

}  // namespace freshet::readers
