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

// --- what the scripts cannot see when keys carry hash tags

Task<Result<RedisReaderStore::Looked>> RedisReaderStore::look(const std::vector<Asked>& asked) {
  Pipeline command;
  command.add("TIME").add("XLEN", keys_.stream());
  for (const Asked& each : asked) {
    const bool has_event = each.event && !each.event->empty();
    command.add("ZSCORE", keys_.reader_events(each.reader->view()), has_event ? each.event->view() : "");
    command.add("HEXISTS", keys_.item(each.item->view()), "published_at");
  }
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (const redis::Reply& reply : *replies) {
    if (reply.is_error()) co_return tl::unexpected(reader_error(reply));
  }
  Looked out{time_at((*replies)[0], 0), {}};
  std::int64_t waiting = (*replies)[1].integer().value_or(0);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const redis::Reply& applied = (*replies)[2 + 2 * i];
    const bool known = (*replies)[3 + 2 * i].integer().value_or(0) == 1;
    if (!applied.is_nil() &&
        redis::whole(applied.string().value_or("")) > unix_s(out.now - redis::kEventTtl)) {
      out.verdicts.push_back(Verdict::kAppliedBefore);
    } else if (reject_unknown_ && !known) {
      out.verdicts.push_back(Verdict::kUnknownItem);
    } else if (waiting++ >= stream_max_) {
      out.verdicts.push_back(Verdict::kStreamFull);
    } else {
      out.verdicts.push_back(Verdict::kApply);
    }
  }
  co_return out;
}

std::optional<Result<void>> RedisReaderStore::answer(Verdict verdict) {
  switch (verdict) {
    case Verdict::kApply:
      return std::nullopt;
    case Verdict::kAppliedBefore:
      return Result<void>();
    case Verdict::kUnknownItem:
      return Result<void>(tl::unexpected(unknown_item()));
    case Verdict::kStreamFull:
      return Result<void>(tl::unexpected(redis::stream_full()));
  }
  return std::nullopt;
}

// --- interactions

// With hash tags `at` is the time by Redis' clock, or not later than it.
void RedisReaderStore::append_interaction(Pipeline& out, const ReaderEvent& event, UnixSeconds at,
                                          Room room) const {
  const std::string_view reader = event.reader.view(), item = event.item.view();
  const std::string letter(1, readers::kind_of(event.kind).letter);
  const bool tags = keys_.hash_tags();
  if (tags) {
    out.add("XADD", keys_.stream(), "*", "op", kOpInteraction, "reader", reader, "item", item, "kind", letter,
            "at", unix_s(at));
  }
  const bool look = reject_unknown_ && !tags;
  out.script(scripts::kReaderInteract, 3U + (tags ? 0U : 1U) + (look ? 1U : 0U), 9)
      .arg(keys_.interactions(reader))
      .arg(keys_.reader_events(reader))
      .arg(keys_.earlier(reader));
  if (!tags) out.arg(keys_.stream());
  if (look) out.arg(keys_.item(item));
  out.arg(reader).arg(item).arg(letter).arg(unix_s(at)).arg(event.event.view());
  out.arg(interactions_.most).arg(interactions_.most_earlier()).arg(interactions_.ttl.count());
  optional_number(out, room);
}

Task<Result<std::vector<Result<void>>>> RedisReaderStore::interact(const std::vector<ReaderEvent>& events) {
  std::vector<Result<void>> answers;
  if (events.empty()) co_return answers;
  if (keys_.hash_tags()) {
    auto told = co_await interact_with_tags(events);
    co_return told;
  }
  Pipeline command;
  for (const ReaderEvent& each : events) append_interaction(command, each, each.at, stream_max_);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (const redis::Reply& reply : *replies) answers.push_back(outcome(reply));
  co_return answers;
}

Task<Result<std::vector<Result<void>>>> RedisReaderStore::interact_with_tags(
    const std::vector<ReaderEvent>& events) {
  std::vector<Asked> asked;
  asked.reserve(events.size());
  for (const ReaderEvent& each : events) asked.push_back({&each.reader, &each.item, &each.event});
  FRESHET_CO_TRY(looked, co_await look(asked));
  std::vector<Result<void>> answers;
  std::vector<std::size_t> applied;  // which events the pipeline is of, two commands each
  Pipeline command;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto known = answer(looked->verdicts[i]);
    answers.push_back(known.value_or(Result<void>()));
    if (known) continue;
    applied.push_back(i);
    append_interaction(command, events[i], std::min(events[i].at, looked->now), stream_max_);
  }
  if (applied.empty()) co_return answers;
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (std::size_t i = 0; i < applied.size(); ++i) {
    const redis::Reply& told = (*replies)[2 * i];
    answers[applied[i]] = outcome(told.is_error() ? told : (*replies)[2 * i + 1]);
  }
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

void RedisReaderStore::append_dismissal(Pipeline& out, const Dismissal& dismissal, Time at, Room room,
                                        UnixSeconds now) const {
  const std::string_view reader = dismissal.reader.view(), item = dismissal.item.view();
  const bool tags = keys_.hash_tags();
  if (tags) {
    const std::int64_t when = unix_s(at.value_or(now));
    const bool why = !dismissal.reason.empty();
    out.command(why ? 13 : 11).arg("XADD").arg(keys_.stream()).arg("*").arg("op").arg(kOpDismiss);
    out.arg("reader").arg(reader).arg("item").arg(item).arg("at").arg(when);
    if (why) out.arg("reason").arg(dismissal.reason);
  }
  const bool look = reject_unknown_ && !tags;
  out.script(scripts::kReaderDismiss, 3U + (tags ? 0U : 1U) + (look ? 1U : 0U), 8)
      .arg(keys_.not_interested(reader))
      .arg(keys_.reader_events(reader))
      .arg(keys_.not_interested_why(reader));
  if (!tags) out.arg(keys_.stream());
  if (look) out.arg(keys_.item(item));
  out.arg(reader).arg(item).arg(dismissal.reason);
  redis::optional_time(out, at);
  out.arg(dismissal.event.view()).arg(feedback_.most).arg(feedback_.ttl.count());
  optional_number(out, room);
}

Task<Result<void>> RedisReaderStore::dismiss(const Dismissal& dismissal) {
  UnixSeconds now;
  if (keys_.hash_tags()) {
    const std::vector<Asked> one{Asked{&dismissal.reader, &dismissal.item, &dismissal.event}};
    FRESHET_CO_TRY(looked, co_await look(one));
    if (auto known = answer(looked->verdicts.front())) co_return *known;
    now = looked->now;
  }
  Pipeline command;
  append_dismissal(command, dismissal, std::nullopt, stream_max_, now);
  auto applied = co_await apply(command);
  co_return applied;
}

Result<void> RedisReaderStore::dismiss_later(const Dismissal& dismissal) {
  Dismissal kept = dismissal;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  Pipeline out;
  append_dismissal(out, kept, wall_now(), std::nullopt, {});
  return deferred_.spool(std::move(out));
}

void RedisReaderStore::append_undo(Pipeline& out, const ReaderId& reader, const ItemId& item, Time at,
                                   Room room) const {
  const bool tags = keys_.hash_tags();
  if (tags) {
    out.add("XADD", keys_.stream(), "*", "op", kOpUndismiss, "reader", reader.view(), "item", item.view(),
            "at", unix_s(at.value_or(UnixSeconds())));
  }
  out.script(scripts::kReaderUndismiss, 3U + (tags ? 0U : 1U), 4)
      .arg(keys_.not_interested(reader.view()))
      .arg(keys_.reader_events(reader.view()))
      .arg(keys_.not_interested_why(reader.view()));
  if (!tags) out.arg(keys_.stream());
  out.arg(reader.view()).arg(item.view());
  redis::optional_time(out, at);
  optional_number(out, room);
}

Task<Result<void>> RedisReaderStore::undo_dismissal(const ReaderId& reader, const ItemId& item) {
  Time at;
  if (keys_.hash_tags()) {
    const std::vector<Asked> one{Asked{&reader, &item, nullptr}};
    FRESHET_CO_TRY(looked, co_await look(one));
    if (looked->verdicts.front() == Verdict::kStreamFull) co_return tl::unexpected(redis::stream_full());
    at = looked->now;
  }
  Pipeline command;
  append_undo(command, reader, item, at, stream_max_);
  auto applied = co_await apply(command);
  co_return applied;
}

Result<void> RedisReaderStore::undo_dismissal_later(const ReaderId& reader, const ItemId& item) {
  Pipeline out;
  append_undo(out, reader, item, wall_now(), std::nullopt);
  return deferred_.spool(std::move(out));
}

}  // namespace freshet::readers
