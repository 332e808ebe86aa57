#include "core/readers/reader_store.h"

#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/fingerprint.h"
#include "core/readers/reader_replies.h"
#include "core/readers/stored_events.h"
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

// By field "{letter}:{item}" of user:views:at, which both histories share.
using Times = std::unordered_map<std::string_view, UnixSeconds>;

Times times_of(const redis::Reply& fields) {
  Times out;
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2)
    out.emplace(redis::text_at(fields, i), time_at(fields, i + 1));
  return out;
}

// The newest items of a history, each once: another program may have written the list, and repeats
// pushed others behind the first `most`. Looked at are so many times as many at the most.
constexpr std::int64_t kRepeats = 4;

std::vector<Viewed> viewed_of(const redis::Reply& list, ViewKind kind, const Times& times,
                              std::int64_t most) {
  std::vector<Viewed> out;
  std::unordered_set<std::string_view> known;
  std::string field;
  for (std::size_t i = 0; i < list.size() && std::ssize(out) < most; ++i) {
    const std::string_view item = redis::text_at(list, i);
    if (!known.insert(item).second) continue;
    const auto found = times.find(field.assign(letter_of(kind)).append(":").append(item));
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

void RedisReaderStore::append_view(Pipeline& out, const View& view) const {
  out.script(scripts::kReaderView)
      .key(keys_.views_of(view.kind, view.reader.view()))
      .key(keys_.views_at(view.reader.view()))
      .key(keys_.reader_events(view.reader.view()));
  if (reject_unknown_) out.key(keys_.item(view.item.view()));
  out.arg(view.item.view()).arg(letter_of(view.kind)).arg(history_.size).arg(history_.ttl.count());
  redis::optional_time(out, view.at);
  // A page may send one id with its view and with what its reader did.
  out.arg(view.event.empty() ? std::string() : "view:" + view.event.str());
}

Task<Result<void>> RedisReaderStore::viewed(const View& view) {
  Pipeline command;
  append_view(command, view);
  auto applied = co_await apply(command);
  co_return applied;
}

void RedisReaderStore::append_history(Pipeline& out, const ReaderId& reader, ViewKind kind) const {
  out.add("LRANGE", keys_.views_of(kind, reader.view()), 0, kRepeats * history_.size - 1);
}

Task<Result<std::vector<Viewed>>> RedisReaderStore::views(const ReaderId& reader, ViewKind kind) {
  Pipeline command;
  append_history(command, reader, kind);
  command.add("HGETALL", keys_.views_at(reader.view()));
  FRESHET_CO_TRY(replies, co_await run_all(redis_, command));
  co_return viewed_of((*replies)[0], kind, times_of((*replies)[1]), history_.size);
}

void RedisReaderStore::append_clear(Pipeline& out, const ReaderId& reader, ViewKind kind, Time until) const {
  out.script(scripts::kReaderClear)
      .key(keys_.views_of(kind, reader.view()))
      .key(keys_.views_at(reader.view()));
  out.arg(letter_of(kind));
  redis::optional_time(out, until);
  out.arg(history_.ttl.count());
}

Task<Result<void>> RedisReaderStore::clear_views(const ReaderId& reader, ViewKind kind, Time until) {
  Pipeline command;
  append_clear(command, reader, kind, until);
  auto applied = co_await apply(command);
  co_return applied;
}

Task<Result<void>> RedisReaderStore::merge_views(const ReaderId& from, const ReaderId& to) {
  if (from == to) co_return Result<void>();
  Pipeline command;
  command.script(scripts::kReaderMerge);
  for (const ReaderId* reader : {&to, &from}) {
    for (const ViewKind kind : kViewKinds) command.key(keys_.views_of(kind, reader->view()));
    command.key(keys_.views_at(reader->view()));
  }
  command.arg(history_.size).arg(history_.ttl.count());
  auto applied = co_await apply(command);
  co_return applied;
}

// --- all of a reader

// Commands of their own, not a script: nothing is missing when another comes between two of them. A
// view that leaves a list was older than all that stay, and what leaves the interactions is among
// the fingerprints, which are read after them.
Task<Result<ReaderState>> RedisReaderStore::read(const ReaderId& reader) {
  const std::string_view id = reader.view();
  Pipeline command;
  for (const ViewKind kind : kViewKinds) append_history(command, reader, kind);
  command.add("HGETALL", keys_.views_at(id))
      .add("ZREVRANGE", keys_.interactions(id), 0, interactions_.max_kept - 1, "WITHSCORES")
      .add("ZREVRANGEBYSCORE", keys_.not_interested(id), "+inf",
           "(" + std::to_string(unix_s(wall_now() - feedback_.ttl)), "WITHSCORES", "LIMIT", 0, feedback_.most)
      .add("GET", keys_.earlier(id));
  FRESHET_CO_TRY(replies, co_await run_all(redis_, command));
  const redis::Replies& found = *replies;
  const Times times = times_of(found[2]);
  ReaderState out;
  out.topics = viewed_of(found[0], ViewKind::kTopic, times, history_.size);
  out.replies = viewed_of(found[1], ViewKind::kReply, times, history_.size);
  const redis::Reply& done = found[3];
  out.done.reserve(done.size() / 2);
  for (std::size_t i = 0; i + 1 < done.size(); i += 2) {
    const auto member = interaction_member(redis::text_at(done, i));
    if (!member) continue;
    out.done.push_back({ItemId::trusted(std::string(member->item)), member->kind, time_at(done, i + 1)});
  }
  out.dismissed = viewed_of(found[4]);
  if (const auto earlier = found[5].string(); earlier && !earlier->empty())
    out.earlier = std::make_shared<const std::unordered_set<std::uint64_t>>(fingerprints_of(*earlier));
  co_return out;
}

// --- later

void RedisReaderStore::viewed_behind(const View& view) {
  View kept = view;
  kept.at = wall_now();
  Pipeline out;
  append_view(out, kept);
  deferred_.post(std::move(out), stored(kept));
}

Result<void> RedisReaderStore::viewed_later(const View& view) {
  View kept = view;
  kept.at = wall_now();
  return deferred_.spool(stored(kept));
}

Result<void> RedisReaderStore::clear_views_later(const ReaderId& reader, ViewKind kind) {
  return deferred_.spool(stored_clear(reader, kind, wall_now()));
}

}  // namespace freshet::readers
