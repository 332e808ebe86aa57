#include "core/readers/reader_store.h"

#include <array>
#include <string>
#include <unordered_map>

#include "core/base/fingerprint.h"
#include "core/readers/reader_replies.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {

using redis::Pipeline;

constexpr std::array kViewKinds{ViewKind::kTopic, ViewKind::kReply};

std::string_view letter_of(ViewKind kind) { return kind == ViewKind::kTopic ? "t" : "r"; }

// Pairs of item and time.
std::vector<Viewed> viewed_of(const redis::Reply& pairs) {
  std::vector<Viewed> out;
  out.reserve(pairs.size() / 2);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    out.push_back({ItemId::trusted(std::string(redis::text_at(pairs, i))), time_at(pairs, i + 1)});
  return out;
}

// A list of items, with their times from the fields "{letter}:{item}" of `times`.
std::vector<Viewed> viewed_of(const redis::Reply& list, ViewKind kind,
                              const std::unordered_map<std::string, UnixSeconds>& times) {
  std::vector<Viewed> out;
  out.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string_view item = redis::text_at(list, i);
    const auto found = times.find(std::string(letter_of(kind)).append(":").append(item));
    out.push_back({ItemId::trusted(std::string(item)), found == times.end() ? UnixSeconds() : found->second});
  }
  return out;
}

}  // namespace

RedisReaderStore::RedisReaderStore(redis::Redis& redis, redis::Deferred& deferred, const Settings& settings,
                                   redis::Keys keys, NewEventId new_event_id)
    : redis_(redis),
      deferred_(deferred),
      history_(settings.history),
      interactions_(settings.interactions),
      feedback_(settings.feedback),
      stream_max_(settings.recorder.stream_max_len),
      reject_unknown_(settings.items_unknown == "reject"),
      keys_(std::move(keys)),
      new_event_id_(std::move(new_event_id)) {}

Task<Result<void>> RedisReaderStore::apply(const Pipeline& commands) {
  FRESHET_CO_TRY(replies, co_await redis_.run(commands));
  co_return outcome(replies->back());
}

// --- history

void RedisReaderStore::append_view(Pipeline& out, const View& view, Time at) const {
  out.script(scripts::kReaderView, (reject_unknown_ ? 4U : 3U), 6)
      .arg(keys_.views_of(view.kind, view.reader.view()))
      .arg(keys_.views_at(view.reader.view()))
      .arg(keys_.reader_events(view.reader.view()));
  if (reject_unknown_) out.arg(keys_.item(view.item.view()));
  out.arg(view.item.view()).arg(letter_of(view.kind)).arg(history_.size).arg(history_.ttl.count());
  redis::optional_time(out, at);
  // A page may send one id with its view and with what its reader did.
  out.arg(view.event.empty() ? std::string() : "view:" + view.event.str());
}

Task<Result<void>> RedisReaderStore::viewed(const View& view) {
  Pipeline command;
  append_view(command, view, std::nullopt);
  auto applied = co_await apply(command);
  co_return applied;
}

void RedisReaderStore::append_views(Pipeline& out, const ReaderId& reader, ViewKind kind) const {
  out.script(scripts::kReaderViews, 2, 2)
      .arg(keys_.views_of(kind, reader.view()))
      .arg(keys_.views_at(reader.view()));
  out.arg(letter_of(kind)).arg(history_.size);
}

Task<Result<std::vector<Viewed>>> RedisReaderStore::views(const ReaderId& reader, ViewKind kind) {
  Pipeline command;
  append_views(command, reader, kind);
  FRESHET_CO_TRY(reply, co_await run_one(redis_, command));
  co_return viewed_of(*reply);
}

void RedisReaderStore::append_clear(Pipeline& out, const ReaderId& reader, ViewKind kind, Time until) const {
  out.script(scripts::kReaderClear, 2, 3)
      .arg(keys_.views_of(kind, reader.view()))
      .arg(keys_.views_at(reader.view()));
  out.arg(letter_of(kind));
  redis::optional_time(out, until);
  out.arg(history_.ttl.count());
}

Task<Result<void>> RedisReaderStore::clear_views(const ReaderId& reader, ViewKind kind) {
  Pipeline command;
  append_clear(command, reader, kind, std::nullopt);
  auto applied = co_await apply(command);
  co_return applied;
}

Task<Result<void>> RedisReaderStore::merge_views(const ReaderId& from, const ReaderId& to) {
  if (from == to) co_return Result<void>();
  Pipeline command;
  command.script(scripts::kReaderMerge, 6, 2);
  for (const ReaderId* reader : {&to, &from}) {
    for (const ViewKind kind : kViewKinds) command.arg(keys_.views_of(kind, reader->view()));
    command.arg(keys_.views_at(reader->view()));
  }
  command.arg(history_.size).arg(history_.ttl.count());
  auto applied = co_await apply(command);
  co_return applied;
}

// --- all of a reader

Task<Result<ReaderState>> RedisReaderStore::read(const ReaderId& reader) {
  const std::string_view id = reader.view();
  Pipeline command;
  command.script(scripts::kReaderRead, 5, 4)
      .arg(keys_.views_of(ViewKind::kTopic, id))
      .arg(keys_.views_of(ViewKind::kReply, id))
      .arg(keys_.views_at(id))
      .arg(keys_.interactions(id))
      .arg(keys_.not_interested(id));
  command.arg(history_.size).arg(interactions_.max_kept).arg(feedback_.most).arg(feedback_.ttl.count());
  command.add("GET", keys_.epoch()).add("GET", keys_.earlier(id));
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  const redis::Reply& found = replies->front();
  if (found.is_error()) co_return tl::unexpected(reader_error(found));
  if (found.size() != 5)
    co_return fail(ErrorCode::kInternal, "redis_type", {}, "unexpected reply of reader_read");
  std::unordered_map<std::string, UnixSeconds> times;
  const redis::Reply fields = found[2];
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2)
    times.emplace(redis::text_at(fields, i), time_at(fields, i + 1));
  ReaderState out;
  out.topics = viewed_of(found[0], ViewKind::kTopic, times);
  out.replies = viewed_of(found[1], ViewKind::kReply, times);
  const redis::Reply done = found[3];
  for (std::size_t i = 0; i + 1 < done.size(); i += 2) {
    const auto member = interaction_member(redis::text_at(done, i));
    if (!member) continue;
    out.done.push_back({ItemId::trusted(std::string(member->item)), member->kind, time_at(done, i + 1)});
  }
  out.dismissed = viewed_of(found[4]);
  out.items_epoch = std::string((*replies)[1].string().value_or(""));
  if (const auto earlier = (*replies)[2].string(); earlier && !earlier->empty())
    out.earlier = std::make_shared<const std::unordered_set<std::uint64_t>>(fingerprints_of(*earlier));
  co_return out;
}

// --- later

Pipeline RedisReaderStore::later_command(const View& view) const {
  Pipeline out;
  append_view(out, view, wall_now());
  return out;
}

void RedisReaderStore::viewed_behind(const View& view) { deferred_.post(later_command(view)); }

Result<void> RedisReaderStore::viewed_later(const View& view) { return deferred_.spool(later_command(view)); }

Result<void> RedisReaderStore::clear_views_later(const ReaderId& reader, ViewKind kind) {
  Pipeline out;
  append_clear(out, reader, kind, wall_now());
  return deferred_.spool(std::move(out));
}

}  // namespace freshet::readers
