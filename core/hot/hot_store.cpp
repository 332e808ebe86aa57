#include "core/hot/hot_store.h"

#include <cmath>

#include "core/hot/counter_keys.h"
#include "core/hot/engagement.h"
#include "core/redis/fields.h"
#include "core/redis/script_words.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

// Members of a rank one script looks at before it gives the turn to others: about a millisecond of Redis.
constexpr std::int64_t kMostMembersRead = 2000;
constexpr std::int64_t kDaySeconds = 86400;

// The errors that our scripts answer, before what the server itself may say.
Error counting_error(const redis::Reply& reply) {
  const std::string_view line = reply.error();
  if (redis::says(line, redis::word::kUnknownItem))
    return {ErrorCode::kNotFound, "unknown_item", "articleId", {}};
  if (redis::says(line, redis::word::kInvalid))
    return {ErrorCode::kInvalid, "bad_number", {}, std::string(line)};
  return redis::classify(line);
}

}  // namespace

RedisHotStore::RedisHotStore(redis::Redis& redis, redis::Deferred& deferred, const Settings& settings,
                             redis::Keys keys, NewEventId new_event_id)
    : redis_(redis),
      deferred_(deferred),
      engagement_(settings.engagement),
      formula_(formula_argument(settings.engagement)),
      views_(settings.views),
      list_(settings.list),
      reject_unknown_(settings.items_unknown == "reject"),
      remember_(settings.limits.remember),
      log2_floor_(std::log2(settings.list.floor)),
      keys_(std::move(keys)),
      new_event_id_(std::move(new_event_id)) {}

// --- engagement

Pipeline RedisHotStore::track_command(const TrackEvent& event, std::optional<UnixSeconds> at) const {
  const std::string_view id = event.item.view();
  const bool has_event = !event.event.empty();
  Pipeline out;
  out.script(scripts::kTrack,
             kCounterKeys + 3U + (has_event ? 1U : 0U) + (remembers(event.counted_as) ? 1U : 0U), 15);
  append_counter_keys(out, keys_, id).arg(keys_.session(id, event.session.view()));
  if (has_event) out.arg(keys_.track_event(id, event.event.view()));
  out.arg(keys_.rank()).arg(keys_.published());
  if (remembers(event.counted_as)) out.arg(keys_.added(event.counted_as.view()));
  out.arg(id).arg(event.visitor.view()).arg(event.dwell_ms);
  redis::optional_time(out, event.published_at);
  redis::optional_time(out, at);
  out.arg(has_event ? 1 : 0)
      .arg(engagement_.session_window.count())
      .arg(engagement_.counter_ttl.count())
      .arg(formula_)
      .arg(engagement_.dwell_cap_ms)
      .arg(log2_floor_)
      .arg(list_.max_members)
      .arg(reject_unknown_ ? 1 : 0);
  event.unproven ? out.arg(engagement_.first_dwell_ms) : out.arg("");
  out.arg(remembers(event.counted_as) ? remember_.count() : 0);
  return out;
}

Task<Result<TrackCounts>> RedisHotStore::track(const TrackEvent& event) {
  const Pipeline command = track_command(event, std::nullopt);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  const redis::Reply& reply = replies->front();
  if (reply.is_error()) co_return tl::unexpected(counting_error(reply));
  FRESHET_CO_TRY(text, reply.string());
  const auto parts = redis::words(*text);
  if (parts.size() < 4) co_return tl::unexpected(redis::malformed("track"));
  co_return TrackCounts{redis::whole(parts[0]), redis::whole(parts[1]),
                        redis::parse_or_zero<double>(parts[2]), redis::parse_or_zero<double>(parts[3])};
}

Result<void> RedisHotStore::track_later(const TrackEvent& event) {
  TrackEvent kept = event;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  return deferred_.spool(track_command(kept, wall_now()));
}

// --- views

Pipeline RedisHotStore::view_command(const ViewEvent& event, std::int64_t day,
                                     std::optional<UnixSeconds> at) const {
  const std::string_view id = event.item.view();
  const bool has_event = !event.event.empty();
  Pipeline out;
  out.script(scripts::kView, 6U + (has_event ? 1U : 0U) + (remembers(event.counted_as) ? 1U : 0U), 16)
      .arg(keys_.dedup(id, event.fingerprint))
      .arg(keys_.uv_day(id, UnixSeconds{seconds{day * kDaySeconds}}))
      .arg(keys_.first_ts(id))
      .arg(keys_.item(id))
      .arg(keys_.views(id));
  if (has_event) out.arg(keys_.view_event(id, event.event.view()));
  out.arg(keys_.score());
  if (remembers(event.counted_as)) out.arg(keys_.added(event.counted_as.view()));
  out.arg(id).arg(event.fingerprint);
  redis::optional_time(out, event.published_at);
  out.arg(day);
  redis::optional_time(out, at);
  out.arg(has_event ? 1 : 0)
      .arg(views_.dedup_window.count())
      .arg(views_.uv_ttl.count())
      .arg(views_.counter_ttl.count())
      .arg(views_.pv_weight)
      .arg(views_.uv_weight)
      .arg(views_.base_hours)
      .arg(views_.gamma)
      .arg(list_.max_members)
      .arg(reject_unknown_ ? 1 : 0)
      .arg(remembers(event.counted_as) ? remember_.count() : 0);
  return out;
}

std::int64_t RedisHotStore::today() const { return unix_s(wall_now()) / kDaySeconds + day_offset_; }

Task<Result<ViewOutcome>> RedisHotStore::view(const ViewEvent& event) {
  std::int64_t day = today();
  for (int attempt = 0;; ++attempt) {
    const Pipeline command = view_command(event, day, std::nullopt);
    FRESHET_CO_TRY(replies, co_await redis_.run(command));
    const redis::Reply& reply = replies->front();
    if (reply.is_error()) {
      const std::string_view line = reply.error();
      const auto redis_day = redis::says(line, redis::word::kDay)
                                 ? redis::parse<std::int64_t>(redis::after_word(line))
                                 : std::nullopt;
      if (!redis_day || attempt > 0) co_return tl::unexpected(counting_error(reply));
      day_offset_ += *redis_day - day;
      day = *redis_day;
      continue;
    }
    FRESHET_CO_TRY(text, reply.string());
    if (*text == "dedup") co_return ViewOutcome{true, false, 0};
    const auto parts = redis::words(*text);
    if (parts.size() != 8) co_return tl::unexpected(redis::malformed("view"));
    if (parts[7] == "1") index_view(event.item, parts);
    co_return ViewOutcome{false, parts[0] == "1", redis::parse_or_zero<double>(parts[1])};
  }
}

// `reply` is that of view.lua: uv inc total score date fresh restart shown.
void RedisHotStore::index_view(const ItemId& item, const std::vector<std::string_view>& reply) {
  const std::int64_t hour = redis::whole(reply[4]) / kHourSeconds;
  Pipeline out;
  out.script(scripts::kViewsIndex, 4, 8)
      .arg(keys_.current(hour))
      .arg(keys_.current_index())
      .arg(keys_.published())
      .arg(keys_.hidden());
  out.arg(item.view()).arg(reply[2]).arg(hour).arg(reply[4]).arg(reply[5]).arg(reply[6]);
  out.arg(views_.counter_ttl.count()).arg(list_.max_members);
  deferred_.post(std::move(out));  // lost when there is no room at all: the next view of the item writes it
}

Result<void> RedisHotStore::view_later(const ViewEvent& event) {
  ViewEvent kept = event;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  const UnixSeconds now = wall_now();
  return deferred_.spool(view_command(kept, unix_s(now) / kDaySeconds, now));
}

// --- lists

Task<Result<CachedList>> RedisHotStore::cached_list(const ListQuery& query) {
  Pipeline command;
  command.script(scripts::kListRead, 5, 2)
      .arg(keys_.list(query))
      .arg(keys_.list_meta(query))
      .arg(keys_.list_lock(query))
      .arg(keys_.epoch())
      .arg(keys_.hidden())
      .arg(list_.slice.count())
      .arg(redis::kListLockTtl.count());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  if (reply->size() != 5) co_return tl::unexpected(redis::malformed("list_read"));
  CachedList out;
  const std::string_view state = redis::text_at(*reply, 0);
  using State = CachedList::State;
  out.state = state == "fresh" ? State::kFresh : state == "stale" ? State::kStale : State::kBuild;
  out.json = std::string(redis::text_at(*reply, 1));
  out.built_ms = redis::parse_or_zero<std::int64_t>(redis::text_at(*reply, 2));
  out.epoch = std::string(redis::text_at(*reply, 3));
  if (const auto due = redis::parse<std::int64_t>(redis::text_at(*reply, 4))) out.due = milliseconds(*due);
  co_return out;
}

void RedisHotStore::store_list(const ListQuery& query, const CachedList& built) {
  Pipeline out;
  out.script(scripts::kListStore, 4, 4)
      .arg(keys_.list(query))
      .arg(keys_.list_meta(query))
      .arg(keys_.list_lock(query))
      .arg(keys_.epoch())
      .arg(built.json)
      .arg(built.built_ms)
      .arg(built.epoch)
      .arg(list_.ttl.count());
  deferred_.post(std::move(out));  // lost: the lock runs out and somebody builds again
}

Task<Result<RankPage>> RedisHotStore::rank_page(const ListQuery& query, std::int64_t offset,
                                                std::int64_t count) {
  const bool has_tag = !query.tag.empty();
  Pipeline command;
  command.script(scripts::kRankPage, has_tag ? 3 : 2, 4)
      .arg(query.model == Model::kEngagement ? keys_.rank() : keys_.score())
      .arg(keys_.published());
  if (has_tag) command.arg(keys_.tag(query.tag.view()));
  command.arg(offset).arg(count).arg(query.window.count()).arg(kMostMembersRead);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  if (reply->size() == 0) co_return tl::unexpected(redis::malformed("rank_page"));
  RankPage page;
  page.next = redis::parse_or_zero<std::int64_t>(redis::text_at(*reply, 0));
  for (std::size_t i = 1; i + 1 < reply->size(); i += 2) {
    page.items.push_back({ItemId::trusted(std::string(redis::text_at(*reply, i))),
                          redis::parse_or_zero<double>(redis::text_at(*reply, i + 1))});
  }
  co_return page;
}

Task<Result<std::vector<Bucket>>> RedisHotStore::buckets() {
  Pipeline command;
  command.add("ZRANGE", keys_.current_index(), 0, -1, "WITHSCORES");
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  std::vector<Bucket> out;
  out.reserve(reply->size() / 2);
  for (std::size_t i = 0; i + 1 < reply->size(); i += 2) {
    out.push_back({redis::parse_or_zero<std::int64_t>(redis::text_at(*reply, i)),
                   redis::parse_or_zero<double>(redis::text_at(*reply, i + 1))});
  }
  co_return out;
}

Task<Result<std::vector<hot::BucketMember>>> RedisHotStore::bucket_heads(
    const std::vector<std::int64_t>& hours, std::int64_t offset, std::int64_t count) {
  std::vector<BucketMember> out;
  if (hours.empty()) co_return out;
  Pipeline command;
  command.script(scripts::kBucketHeads, 2 + hours.size(), 2 + hours.size())
      .arg(keys_.current_index())
      .arg(keys_.published());
  for (const std::int64_t hour : hours) command.arg(keys_.current(hour));
  command.arg(offset).arg(count);
  for (const std::int64_t hour : hours) command.arg(hour);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  for (std::size_t i = 0; i + 2 < reply->size(); i += 3) {
    out.push_back({ItemId::trusted(std::string(redis::text_at(*reply, i))),
                   redis::parse_or_zero<double>(redis::text_at(*reply, i + 1)),
                   UnixSeconds{seconds{redis::whole(redis::text_at(*reply, i + 2))}}});
  }
  co_return out;
}

// --- stats

namespace {

// The reply of stats.lua.
ItemStats read_stats(const redis::Reply& reply) {
  ItemStats out;
  out.now = UnixSeconds{seconds{redis::whole(redis::text_at(reply, 0))}};
  out.known = !redis::text_at(reply, 1).empty() || !redis::text_at(reply, 6).empty();
  out.pv = redis::whole(redis::text_at(reply, 1));
  out.uv = redis::whole(redis::text_at(reply, 2));
  out.dwell_sum_ms = redis::whole(redis::text_at(reply, 3));
  out.dwell_count = redis::whole(redis::text_at(reply, 4));
  const auto first = redis::parse<double>(redis::text_at(reply, 5));
  out.first = first ? UnixSeconds{seconds{static_cast<std::int64_t>(*first)}} : out.now;
  out.views_pv = redis::whole(redis::text_at(reply, 6));
  out.views_total = redis::parse_or_zero<double>(redis::text_at(reply, 7));
  out.uv_today = redis::whole(redis::text_at(reply, 8));
  const auto rank = [&](std::size_t at) -> std::optional<std::int64_t> {
    const auto from_zero = redis::parse<std::int64_t>(redis::text_at(reply, at));
    return from_zero ? std::optional(*from_zero + 1) : std::nullopt;
  };
  out.rank_key = redis::parse<double>(redis::text_at(reply, 9));
  out.rank = rank(10);
  out.views_score = redis::parse<double>(redis::text_at(reply, 11));
  out.views_rank = rank(12);
  return out;
}

}  // namespace

Task<Result<std::vector<hot::ItemStats>>> RedisHotStore::stats(const std::vector<ItemId>& items) {
  std::vector<ItemStats> out;
  if (items.empty()) co_return out;
  const UnixSeconds day{seconds{today() * kDaySeconds}};
  Pipeline command;
  for (const ItemId& item : items) {
    const std::string_view id = item.view();
    command.script(scripts::kStats, kCounterKeys + 4, 1);
    append_counter_keys(command, keys_, id).arg(keys_.views(id)).arg(keys_.uv_day(id, day));
    command.arg(keys_.rank()).arg(keys_.score()).arg(id);
  }
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (const redis::Reply& reply : *replies) {
    if (reply.is_error()) co_return tl::unexpected(redis::classify(reply.error()));
    if (reply.size() != 13) co_return tl::unexpected(redis::malformed("stats"));
    out.push_back(read_stats(reply));
  }
  co_return out;
}

}  // namespace freshet::hot
