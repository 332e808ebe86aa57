#include "core/readers/reader_store.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/fingerprint.h"
#include "core/readers/reader_replies.h"
#include "core/readers/spool_records.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {

using redis::Pipeline;

constexpr std::array kViewKinds{ViewKind::kTopic, ViewKind::kReply};

std::string_view letter_of(ViewKind kind) { return kind == ViewKind::kTopic ? "t" : "r"; }

// The name of a view's event id in user:events. No event id has it.
std::string view_event_of(std::string_view event) {
  return std::string(1, kIdMark).append("view:").append(event);
}

// Parses pairs of item and time.
std::vector<ViewedItem> parse_views(const redis::Reply& pairs) {
  std::vector<ViewedItem> out;
  out.reserve(pairs.size() / 2);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    out.push_back({ItemId::trusted(std::string(redis::string_at(pairs, i))), parse_time(pairs, i + 1)});
  return out;
}

// Raw times of user:views:at by field "{letter}:{item}". Both histories share the hash.
using ViewTimes = std::unordered_map<std::string_view, std::string_view>;

ViewTimes parse_times(const redis::Reply& fields) {
  ViewTimes out;
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2)
    out.emplace(redis::string_at(fields, i), redis::string_at(fields, i + 1));
  return out;
}

// Empty if the item has no time.
std::string_view time_text(const ViewTimes& times, ViewKind kind, std::string_view item) {
  const auto found = times.find(std::string(letter_of(kind)).append(":").append(item));
  return found == times.end() ? std::string_view() : found->second;
}
UnixSeconds view_time(const ViewTimes& times, ViewKind kind, std::string_view item) {
  return UnixSeconds{seconds{redis::to_int(time_text(times, kind, item))}};
}

// The newest items of a history, without duplicates. Another program may have written the list, and
// duplicates may have displaced items beyond `limit`, so up to kDuplicateFactor times as many
// elements are read.
constexpr std::int64_t kDuplicateFactor = 4;

// Times of removed items are kept until there are this many times as many as items in the history.
constexpr std::int64_t kMaxRemovalFactor = 10;

std::vector<ViewedItem> parse_views(const redis::Reply& list, ViewKind kind, const ViewTimes& times,
                                    std::int64_t limit) {
  std::vector<ViewedItem> out;
  std::unordered_set<std::string_view> distinct;
  for (std::size_t i = 0; i < list.size() && std::ssize(out) < limit; ++i) {
    const std::string_view item = redis::string_at(list, i);
    if (distinct.insert(item).second)
      out.push_back({ItemId::trusted(std::string(item)), view_time(times, kind, item)});
  }
  return out;
}

// Views to add to `target` from `source`: items that it lacks or has only with an earlier time.
// Newest first; within one second, target's order before source's.
std::vector<ViewedItem> views_to_merge(const std::vector<ViewedItem>& target,
                                       const std::vector<ViewedItem>& source, std::size_t limit) {
  const auto find_in = [](const std::vector<ViewedItem>& views, const ItemId& item) {
    return std::find_if(views.begin(), views.end(),
                        [&](const ViewedItem& each) { return each.item == item; });
  };
  std::vector<ViewedItem> out;
  for (const ViewedItem& each : target) {
    const auto newer = find_in(source, each.item);
    if (newer != source.end() && newer->at > each.at) out.push_back(*newer);
  }
  for (const ViewedItem& each : source) {
    if (find_in(target, each.item) == target.end()) out.push_back(each);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const ViewedItem& a, const ViewedItem& b) { return a.at > b.at; });
  out.resize(std::min(out.size(), limit));
  return out;
}

}  // namespace

RedisReaderStore::RedisReaderStore(redis::Redis& redis, redis::WriteQueue& write_queue,
                                   const Settings& settings, redis::Keys keys, NewEventId new_event_id)
    : redis_(redis),
      write_queue_(write_queue),
      readers_(settings.readers),
      history_(settings.history),
      interactions_(settings.interactions),
      feedback_(settings.feedback),
      keys_(std::move(keys)),
      stream_max_(keys_.per_partition(settings.recorder.stream_max_len)),
      reject_unknown_(settings.items_unknown == "reject"),
      new_event_id_(std::move(new_event_id)) {}

Task<Result<void>> RedisReaderStore::run_for_last_reply(const Pipeline& commands) {
  FRESHET_CO_TRY(replies, co_await redis_.run(commands));
  co_return to_result(replies->back());
}

void RedisReaderStore::append_item_check(Pipeline& out, std::string_view item) const {
  out.add("HMGET", keys_.item(item), "published_at", "hidden");
}

// Otherwise clients could tell hidden and embargoed items from unknown ones.
Result<void> RedisReaderStore::require_item(const redis::Reply& item, bool is_from_site) {
  if (item.is_error()) return to_result(item);
  const auto date = redis::parse<std::int64_t>(redis::string_at(item, 0));
  const bool is_visible = date && *date <= unix_s(wall_now()) && redis::string_at(item, 1) != "1";
  if (is_visible || (date && is_from_site)) return {};
  return fail(ErrorCode::kNotFound, "unknown_item");
}

// --- history

void RedisReaderStore::append_view(Pipeline& out, const View& view, std::optional<seconds> merged_ttl) const {
  out.script(scripts::kReaderView)
      .key(keys_.view_history(view.kind, view.reader.view()))
      .key(keys_.view_times(view.reader.view()))
      .key(keys_.reader_event_ids(view.reader.view()))
      .key(keys_.feed_state(view.reader.view()));
  out.arg(view.item.view()).arg(letter_of(view.kind)).arg(history_.size);
  out.arg(merged_ttl.value_or(history_ttl(view.reader)).count());
  redis::append_optional_time(out, view.at);
  // A page may send the same event id with a view and with an interaction.
  out.arg(view.event.empty() ? std::string() : view_event_of(view.event.view())).arg(merged_ttl ? 1 : 0);
}

Task<Result<void>> RedisReaderStore::record_view(const View& view) {
  Pipeline command;
  if (reject_unknown_) {
    append_item_check(command, view.item.view());
    FRESHET_CO_TRY(known, co_await redis::run_one(redis_, command));
    if (const auto accepted = require_item(*known, view.is_from_site); !accepted) co_return accepted;
    command.clear();
  }
  append_view(command, view);
  auto applied = co_await run_for_last_reply(command);
  if (applied) observe(view.reader, view.item, view.at, true);
  co_return applied;
}

void RedisReaderStore::append_history_read(Pipeline& out, const ReaderId& reader, ViewKind kind) const {
  out.add("LRANGE", keys_.view_history(kind, reader.view()), 0, kDuplicateFactor * history_.size - 1);
}

Task<Result<std::vector<ViewedItem>>> RedisReaderStore::views(const ReaderId& reader, ViewKind kind) {
  Pipeline command;
  append_history_read(command, reader, kind);
  command.add("HGETALL", keys_.view_times(reader.view()));
  FRESHET_CO_TRY(replies, co_await run_all(redis_, command));
  co_return parse_views((*replies)[0], kind, parse_times((*replies)[1]), history_.size);
}

// Appends the removal of views that are not later than `until`, given the replies with the list and
// the times. `cleared`: time up to which the history is cleared; 0: it is not.
void RedisReaderStore::append_history_removal(Pipeline& out, const ReaderId& reader, ViewKind kind,
                                              const redis::Reply& list, const redis::Reply& times,
                                              UnixSeconds until, UnixSeconds cleared) const {
  const ViewTimes known = parse_times(times);
  std::unordered_set<std::string_view> items;
  for (std::size_t i = 0; i < list.size(); ++i) items.insert(redis::string_at(list, i));
  for (const auto& [field, time] : known) {
    if (field.starts_with(std::string(letter_of(kind)) + ":")) items.insert(field.substr(2));
  }
  out.script(scripts::kReaderClearViews)
      .key(keys_.view_history(kind, reader.view()))
      .key(keys_.view_times(reader.view()));
  out.arg(letter_of(kind)).arg(unix_s(cleared)).arg(history_ttl(reader).count());
  for (const std::string_view item : items) {
    if (view_time(known, kind, item) <= until) out.arg(item).arg(time_text(known, kind, item));
  }
}

Task<Result<void>> RedisReaderStore::clear_views(const ReaderId& reader, ViewKind kind, OptionalTime until) {
  // Write the clear mark first: it rejects an older view that another worker replays from its spool
  // after this read.
  Pipeline reads, removal;
  append_history_removal(reads, reader, kind, {}, {}, {}, until.value_or(UnixSeconds::max()));
  reads.barrier();
  reads.add("LRANGE", keys_.view_history(kind, reader.view()), 0, -1)
      .add("HGETALL", keys_.view_times(reader.view()))
      .add("TIME");
  FRESHET_CO_TRY(read_replies, co_await run_all(redis_, reads));
  const UnixSeconds latest = until ? std::min(*until, parse_time((*read_replies)[3], 0)) : UnixSeconds::max();
  append_history_removal(removal, reader, kind, (*read_replies)[1], (*read_replies)[2], latest, {});
  auto applied = co_await run_for_last_reply(removal);
  co_return applied;
}

Task<Result<void>> RedisReaderStore::remove_view(const ReaderId& reader, ViewKind kind, const ItemId& item,
                                                 OptionalTime at) {
  Pipeline command;
  command.script(scripts::kReaderRemoveView)
      .key(keys_.view_history(kind, reader.view()))
      .key(keys_.view_times(reader.view()));
  command.arg(item.view()).arg(letter_of(kind));
  redis::append_optional_time(command, at);
  command.arg(history_ttl(reader).count()).arg(kMaxRemovalFactor * history_.size);
  auto removed = co_await run_for_last_reply(command);
  co_return removed;
}

Task<Result<std::int64_t>> RedisReaderStore::merge_views(const ReaderId& from, const ReaderId& to) {
  std::int64_t moved = 0;
  if (from == to) co_return moved;
  Pipeline reads, additions, removals;
  for (const ReaderId* reader : {&to, &from}) {
    for (const ViewKind kind : kViewKinds)
      reads.add("LRANGE", keys_.view_history(kind, reader->view()), 0, -1);
    reads.add("HGETALL", keys_.view_times(reader->view()));
  }
  reads.add("TIME");
  FRESHET_CO_TRY(read_replies, co_await run_all(redis_, reads));
  const UnixSeconds now = parse_time(read_replies->back(), 0);
  const redis::Reply &target_reply = (*read_replies)[2], &source_reply = (*read_replies)[5];
  const ViewTimes target_times = parse_times(target_reply), source_times = parse_times(source_reply);
  for (std::size_t k = 0; k < kViewKinds.size(); ++k) {
    const ViewKind kind = kViewKinds[k];
    const auto source_views = parse_views((*read_replies)[3 + k], kind, source_times, history_.size);
    moved += std::ssize(source_views);
    const auto views = views_to_merge(parse_views((*read_replies)[k], kind, target_times, history_.size),
                                      source_views, static_cast<std::size_t>(history_.size));
    for (const ViewedItem& each : views) {
      // Expires as if all views had been the target's own. A view without a time counts as now.
      const UnixSeconds newest = views.front().at == UnixSeconds() ? now : views.front().at;
      append_view(additions, {to, each.item, kind, {}, each.at},
                  std::max(seconds{1}, newest + history_ttl(to) - now));
    }
    append_history_removal(removals, from, kind, (*read_replies)[3 + k], source_reply, UnixSeconds::max(),
                           UnixSeconds());
  }
  if (!additions.empty()) {
    FRESHET_CO_TRY(joined, co_await run_all(redis_, additions));
  }
  FRESHET_CO_TRY(forgotten, co_await run_all(redis_, removals));
  co_return moved;
}

// --- complete state

// Plain commands instead of a script: interleaved writes cannot cause gaps. A view that is pushed
// out of a list is older than all that remain, and an interaction that is pushed out is in the
// fingerprints, which are read last.
Task<Result<ReaderState>> RedisReaderStore::read(const ReaderId& reader) {
  const std::string_view id = reader.view();
  Pipeline command;
  for (const ViewKind kind : kViewKinds) append_history_read(command, reader, kind);
  command.add("HGETALL", keys_.view_times(id))
      .add("ZREVRANGE", keys_.interactions(id), 0, interactions_.max_kept - 1, "WITHSCORES")
      .add("ZREVRANGEBYSCORE", keys_.not_interested(id), "+inf",
           "(" + std::to_string(unix_s(wall_now() - feedback_.ttl)), "WITHSCORES", "LIMIT", 0,
           feedback_.max_items)
      .add("GET", keys_.archived_interactions(id));
  FRESHET_CO_TRY(replies, co_await run_all(redis_, command));
  const redis::Replies& found = *replies;
  const ViewTimes times = parse_times(found[2]);
  ReaderState out;
  out.topic_views = parse_views(found[0], ViewKind::kTopic, times, history_.size);
  out.reply_views = parse_views(found[1], ViewKind::kReply, times, history_.size);
  const redis::Reply& members = found[3];
  out.interactions.reserve(members.size() / 2);
  for (std::size_t i = 0; i + 1 < members.size(); i += 2) {
    const auto member = interaction_member(redis::string_at(members, i));
    if (!member) continue;
    out.interactions.push_back(
        {ItemId::trusted(std::string(member->item)), member->kind, parse_time(members, i + 1)});
  }
  out.dismissals = parse_views(found[4]);
  if (const auto archived = found[5].string(); archived && !archived->empty())
    out.archived = std::make_shared<const std::unordered_set<std::uint64_t>>(parse_fingerprints(*archived));
  co_return out;
}

// --- spooled writes

Result<void> RedisReaderStore::spool_history_view(const View& view) {
  View stamped = view;
  stamped.at = wall_now();
  return write_queue_.spool(to_spool_record(stamped));
}

Result<void> RedisReaderStore::spool_remove_view(const ReaderId& reader, ViewKind kind, const ItemId& item) {
  return write_queue_.spool(removal_spool_record(reader, kind, item, wall_now()));
}

Result<void> RedisReaderStore::spool_clear_views(const ReaderId& reader, ViewKind kind) {
  return write_queue_.spool(clear_spool_record(reader, kind, wall_now()));
}

}  // namespace freshet::readers
