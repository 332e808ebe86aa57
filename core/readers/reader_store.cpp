#include "core/readers/reader_store.h"

#include <algorithm>
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
    out.push_back({ItemId::trusted(std::string(redis::string_at(pairs, i))), time_at(pairs, i + 1)});
  return out;
}

// By field "{letter}:{item}" of user:views:at, which both histories share, as it stands there.
using Times = std::unordered_map<std::string_view, std::string_view>;

Times times_of(const redis::Reply& fields) {
  Times out;
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2)
    out.emplace(redis::string_at(fields, i), redis::string_at(fields, i + 1));
  return out;
}

// "": the item has none.
std::string_view time_text(const Times& times, ViewKind kind, std::string_view item) {
  const auto found = times.find(std::string(letter_of(kind)).append(":").append(item));
  return found == times.end() ? std::string_view() : found->second;
}
UnixSeconds time_in(const Times& times, ViewKind kind, std::string_view item) {
  return UnixSeconds{seconds{redis::to_int(time_text(times, kind, item))}};
}

// The newest items of a history, each once: another program may have written the list, and repeats
// pushed others behind the first `most`. Looked at are so many times as many at the most.
constexpr std::int64_t kRepeats = 4;

std::vector<Viewed> viewed_of(const redis::Reply& list, ViewKind kind, const Times& times,
                              std::int64_t most) {
  std::vector<Viewed> out;
  std::unordered_set<std::string_view> known;
  for (std::size_t i = 0; i < list.size() && std::ssize(out) < most; ++i) {
    const std::string_view item = redis::string_at(list, i);
    if (known.insert(item).second)
      out.push_back({ItemId::trusted(std::string(item)), time_in(times, kind, item)});
  }
  return out;
}

// What joins a history that is `here` from another: what is not in it, or only of an earlier time.
// Newest first; of one second in the order that it has here, then there.
std::vector<Viewed> joining(const std::vector<Viewed>& here, const std::vector<Viewed>& there,
                            std::size_t most) {
  const auto find_in = [](const std::vector<Viewed>& views, const ItemId& item) {
    return std::find_if(views.begin(), views.end(), [&](const Viewed& each) { return each.item == item; });
  };
  std::vector<Viewed> out;
  for (const Viewed& each : here) {
    const auto again = find_in(there, each.item);
    if (again != there.end() && again->at > each.at) out.push_back(*again);
  }
  for (const Viewed& each : there) {
    if (find_in(here, each.item) == here.end()) out.push_back(each);
  }
  std::stable_sort(out.begin(), out.end(), [](const Viewed& a, const Viewed& b) { return a.at > b.at; });
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace

RedisReaderStore::RedisReaderStore(redis::Redis& redis, redis::WriteQueue& deferred, const Settings& settings,
                                   redis::Keys keys, NewEventId new_event_id)
    : redis_(redis),
      deferred_(deferred),
      history_(settings.history),
      interactions_(settings.interactions),
      feedback_(settings.feedback),
      keys_(std::move(keys)),
      stream_max_(keys_.per_partition(settings.recorder.stream_max_len)),
      reject_unknown_(settings.items_unknown == "reject"),
      new_event_id_(std::move(new_event_id)) {}

Task<Result<void>> RedisReaderStore::apply(const Pipeline& commands) {
  FRESHET_CO_TRY(replies, co_await redis_.run(commands));
  co_return outcome(replies->back());
}

void RedisReaderStore::append_known(Pipeline& out, std::string_view item) const {
  out.add("HEXISTS", keys_.item(item), "published_at");
}

Result<void> RedisReaderStore::expect_known(const redis::Reply& known) {
  if (known.integer() == 1) return {};
  return known.is_error() ? outcome(known) : fail(ErrorCode::kNotFound, "unknown_item");
}

// --- history

void RedisReaderStore::append_view(Pipeline& out, const View& view, std::optional<seconds> joins) const {
  out.script(scripts::kReaderView)
      .key(keys_.view_history(view.kind, view.reader.view()))
      .key(keys_.view_times(view.reader.view()))
      .key(keys_.reader_event_ids(view.reader.view()));
  out.arg(view.item.view()).arg(letter_of(view.kind)).arg(history_.size);
  out.arg(joins.value_or(history_.ttl).count());
  redis::append_optional_time(out, view.at);
  // A page may send one id with its view and with what its reader did.
  out.arg(view.event.empty() ? std::string() : "view:" + view.event.str()).arg(joins ? 1 : 0);
}

Task<Result<void>> RedisReaderStore::viewed(const View& view) {
  Pipeline command;
  if (reject_unknown_) {
    append_known(command, view.item.view());
    FRESHET_CO_TRY(known, co_await redis::run_one(redis_, command));
    if (const auto may = expect_known(*known); !may) co_return may;
    command.clear();
  }
  append_view(command, view);
  auto applied = co_await apply(command);
  co_return applied;
}

void RedisReaderStore::append_history(Pipeline& out, const ReaderId& reader, ViewKind kind) const {
  out.add("LRANGE", keys_.view_history(kind, reader.view()), 0, kRepeats * history_.size - 1);
}

Task<Result<std::vector<Viewed>>> RedisReaderStore::views(const ReaderId& reader, ViewKind kind) {
  Pipeline command;
  append_history(command, reader, kind);
  command.add("HGETALL", keys_.view_times(reader.view()));
  FRESHET_CO_TRY(replies, co_await run_all(redis_, command));
  co_return viewed_of((*replies)[0], kind, times_of((*replies)[1]), history_.size);
}

// Of what was read, `list` and `times`, what is not later than `until`. `cleared`: up to when the
// history is cleared; 0: it is not.
void RedisReaderStore::append_forget(Pipeline& out, const ReaderId& reader, ViewKind kind,
                                     const redis::Reply& list, const redis::Reply& times, UnixSeconds until,
                                     UnixSeconds cleared) const {
  const Times known = times_of(times);
  std::unordered_set<std::string_view> items;
  for (std::size_t i = 0; i < list.size(); ++i) items.insert(redis::string_at(list, i));
  for (const auto& [field, time] : known) {
    if (field.starts_with(std::string(letter_of(kind)) + ":")) items.insert(field.substr(2));
  }
  out.script(scripts::kReaderForget)
      .key(keys_.view_history(kind, reader.view()))
      .key(keys_.view_times(reader.view()));
  out.arg(letter_of(kind)).arg(unix_s(cleared)).arg(history_.ttl.count());
  for (const std::string_view item : items) {
    if (time_in(known, kind, item) <= until) out.arg(item).arg(time_text(known, kind, item));
  }
}

Task<Result<void>> RedisReaderStore::clear_views(const ReaderId& reader, ViewKind kind, Time until) {
  // The mark first: it refuses an older view that another worker's spool applies after the look.
  Pipeline look, forget;
  append_forget(look, reader, kind, {}, {}, {}, until.value_or(UnixSeconds::max()));
  look.barrier();
  look.add("LRANGE", keys_.view_history(kind, reader.view()), 0, -1)
      .add("HGETALL", keys_.view_times(reader.view()))
      .add("TIME");
  FRESHET_CO_TRY(found, co_await run_all(redis_, look));
  const UnixSeconds latest = until ? std::min(*until, time_at((*found)[3], 0)) : UnixSeconds::max();
  append_forget(forget, reader, kind, (*found)[1], (*found)[2], latest, {});
  auto applied = co_await apply(forget);
  co_return applied;
}

Task<Result<void>> RedisReaderStore::merge_views(const ReaderId& from, const ReaderId& to) {
  if (from == to) co_return Result<void>();
  Pipeline look, join, forget;
  for (const ReaderId* reader : {&to, &from}) {
    for (const ViewKind kind : kViewKinds) look.add("LRANGE", keys_.view_history(kind, reader->view()), 0, -1);
    look.add("HGETALL", keys_.view_times(reader->view()));
  }
  look.add("TIME");
  FRESHET_CO_TRY(found, co_await run_all(redis_, look));
  const UnixSeconds now = time_at(found->back(), 0);
  const redis::Reply &times_here = (*found)[2], &times_there = (*found)[5];
  const Times here = times_of(times_here), there = times_of(times_there);
  for (std::size_t k = 0; k < kViewKinds.size(); ++k) {
    const ViewKind kind = kViewKinds[k];
    const auto views = joining(viewed_of((*found)[k], kind, here, history_.size),
                               viewed_of((*found)[3 + k], kind, there, history_.size),
                               static_cast<std::size_t>(history_.size));
    for (const Viewed& each : views) {
      // What runs out does so as if all views had been this reader's. One without a time is of now.
      const UnixSeconds newest = views.front().at == UnixSeconds() ? now : views.front().at;
      append_view(join, {to, each.item, kind, {}, each.at},
                  std::max(seconds{1}, newest + history_.ttl - now));
    }
    append_forget(forget, from, kind, (*found)[3 + k], times_there, UnixSeconds::max(), UnixSeconds());
  }
  if (!join.empty()) {
    FRESHET_CO_TRY(joined, co_await run_all(redis_, join));
  }
  FRESHET_CO_TRY(forgotten, co_await run_all(redis_, forget));
  co_return Result<void>();
}

// --- all of a reader

// Commands of their own, not a script: nothing is missing when another comes between two of them. A
// view that leaves a list was older than all that stay, and what leaves the interactions is among
// the fingerprints, which are read after them.
Task<Result<ReaderState>> RedisReaderStore::read(const ReaderId& reader) {
  const std::string_view id = reader.view();
  Pipeline command;
  for (const ViewKind kind : kViewKinds) append_history(command, reader, kind);
  command.add("HGETALL", keys_.view_times(id))
      .add("ZREVRANGE", keys_.interactions(id), 0, interactions_.max_kept - 1, "WITHSCORES")
      .add("ZREVRANGEBYSCORE", keys_.not_interested(id), "+inf",
           "(" + std::to_string(unix_s(wall_now() - feedback_.ttl)), "WITHSCORES", "LIMIT", 0, feedback_.max_items)
      .add("GET", keys_.archived_interactions(id));
  FRESHET_CO_TRY(replies, co_await run_all(redis_, command));
  const redis::Replies& found = *replies;
  const Times times = times_of(found[2]);
  ReaderState out;
  out.topics = viewed_of(found[0], ViewKind::kTopic, times, history_.size);
  out.replies = viewed_of(found[1], ViewKind::kReply, times, history_.size);
  const redis::Reply& done = found[3];
  out.done.reserve(done.size() / 2);
  for (std::size_t i = 0; i + 1 < done.size(); i += 2) {
    const auto member = interaction_member(redis::string_at(done, i));
    if (!member) continue;
    out.done.push_back({ItemId::trusted(std::string(member->item)), member->kind, time_at(done, i + 1)});
  }
  out.dismissed = viewed_of(found[4]);
  if (const auto earlier = found[5].string(); earlier && !earlier->empty())
    out.earlier = std::make_shared<const std::unordered_set<std::uint64_t>>(parse_fingerprints(*earlier));
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
