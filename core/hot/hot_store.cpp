#include "core/hot/hot_store.h"

#include "core/hot/article.h"
#include "core/hot/engagement.h"
#include "core/hot/stored_events.h"
#include "core/hot/views.h"
#include "core/redis/fields.h"
#include "core/redis/script_words.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kDaySeconds = 86400;

// Where the scripts answer whether it is hidden, unlisted.lua says this.
constexpr std::string_view kNotListed = "2";
constexpr std::size_t kNetworkBytes = 6;
constexpr seconds kUnlistedTtl{3600};  // as unlisted.lua has it

// The part of both commands that the model does not matter to.
Pipeline unlisted(const std::string& article, const std::string& event_key, const Standing& standing,
                  const std::optional<UnixSeconds>& published_at, const std::optional<UnixSeconds>& at,
                  bool may_begin) {
  Pipeline out;
  out.script(scripts::kUnverified).key(article);
  if (!event_key.empty()) out.key(event_key);
  out.arg(std::string_view(standing.network).substr(0, kNetworkBytes));
  redis::append_optional_time(out, published_at);
  redis::append_optional_time(out, at);
  out.arg(may_begin ? 1 : 0);
  return out;
}

}  // namespace

RedisHotStore::RedisHotStore(redis::Redis& redis, Behind behind, const Settings& settings, redis::Keys keys,
                             NewEventId new_event_id)
    : redis_(redis),
      behind_(behind),
      settings_(settings),
      keys_(std::move(keys)),
      new_event_id_(std::move(new_event_id)) {}

// The scripts' word for what becomes of unknown articles.
int RedisHotStore::unknown_argument(const Standing& standing) const {
  if (settings_.items_unknown == "reject") return 1;
  return settings_.items_unknown == "count" && !standing.network.empty() ? 2 : 0;
}

template <class Event>
Task<Result<redis::Reply>> RedisHotStore::ask(const Pipeline& count, const Event& event) {
  // Between the two somebody may vouch for it, or it may end.
  constexpr int kMostTries = 3;
  for (int attempt = 0;; ++attempt) {
    FRESHET_CO_TRY(counted, co_await redis_.run(count));
    const bool is_unlisted = redis::has_code(counted->front().error(), redis::word::kUnverified);
    if (!counted->front().is_error() || !is_unlisted) co_return std::move(counted->front());
    Pipeline unlisted = unlisted_command(event, false);
    FRESHET_CO_TRY(noted, co_await redis_.run(unlisted));
    if (noted->front().text() == redis::word::kCreates) {
      FRESHET_CO_TRY(may, co_await expect_room(event.item.view(), event.standing));
      unlisted = unlisted_command(event, true);
      FRESHET_CO_TRY(begun, co_await redis_.run(unlisted));
      noted = std::move(begun);
    }
    if (noted->front().text() != redis::word::kVerified) {
      note_unlisted(event.item.view(), noted->front().text());
      co_return std::move(noted->front());
    }
    if (attempt == kMostTries) co_return fail(ErrorCode::kUnavailable, "unavailable");
  }
}

// Whether one more article may begin that nobody vouched for, by its group's part. Those of the
// same moment are not seen.
Task<Result<void>> RedisHotStore::expect_room(std::string_view id, const Standing& standing) {
  const auto refusal = [](const char* of) {
    return fail(ErrorCode::kRateLimited, "too_many_unknown", {}, of);
  };
  if (!standing.may_begin) co_return refusal("of this network");
  Pipeline count;
  const std::string unlisted = keys_.partition_for(id).unverified();
  count.add("ZREMRANGEBYSCORE", unlisted, "-inf", unix_s(wall_now()));
  count.add("ZCARD", unlisted);
  FRESHET_CO_TRY(counts, co_await redis::run_all(redis_, count));
  const std::int64_t most = settings_.items_unknown_max / keys_.partition_count();
  if (counts->back().integer().value_or(0) >= most) co_return refusal("of all");
  co_return Result<void>();
}

// `counted`: what unlisted.lua says of the event.
void RedisHotStore::note_unlisted(std::string_view id, std::string_view counted) {
  const auto parts = redis::split_words(counted);
  constexpr std::size_t kShown = 5, kNewOfView = 7, kNewOfReport = 8, kReport = 12;  // places of its words
  if (parts.size() <= kNewOfView || parts[parts.size() == kReport ? kNewOfReport : kNewOfView] != "1") return;
  const std::string unlisted = keys_.partition_for(id).unverified();
  Pipeline note;
  if (parts[kShown] == kNotListed)
    note.add("ZADD", unlisted, unix_s(wall_now() + kUnlistedTtl), id);
  else
    note.add("ZREM", unlisted, id);
  behind_.deferred.post(std::move(note));
}

// --- engagement

Pipeline RedisHotStore::unlisted_command(const TrackEvent& event, bool may_begin) const {
  const std::string_view id = event.item.view();
  const EngagementSettings& engagement = settings_.engagement;
  const std::string key = event.event.empty() ? std::string() : keys_.track_event(id, event.event.view());
  const std::int64_t dwell_ms =
      event.unproven ? std::min(event.dwell_ms, engagement.max_initial_dwell_ms) : event.dwell_ms;
  Pipeline out = unlisted(keys_.article(id), key, event.standing, event.published_at, event.at, may_begin);
  out.arg(engagement.counter_ttl.count()).arg(dwell_ms).arg(0).arg(0);
  return out;
}

Pipeline RedisHotStore::track_command(const TrackEvent& event) const {
  const std::string_view id = event.item.view();
  const EngagementSettings& engagement = settings_.engagement;
  Pipeline out;
  out.script(scripts::kTrack)
      .key(keys_.article(id))
      .key(keys_.uv_hll(id))
      .key(keys_.session(id, event.session.view()));
  if (!event.event.empty()) out.key(keys_.track_event(id, event.event.view()));
  out.arg(event.standing.in_uv ? event.visitor.view() : "");
  out.arg(std::min(event.dwell_ms, engagement.dwell_cap_ms));  // a spool's may be of a higher cap
  redis::append_optional_time(out, event.published_at);
  redis::append_optional_time(out, event.at);
  out.arg(engagement.session_window.count())
      .arg(engagement.counter_ttl.count())
      .arg(unknown_argument(event.standing));
  event.unproven ? out.arg(engagement.max_initial_dwell_ms) : out.arg("");
  return out;
}

Task<Result<TrackCounts>> RedisHotStore::track(const TrackEvent& event) {
  const Pipeline command = track_command(event);
  behind_.placing.expect(event.item.view());
  FRESHET_CO_TRY(reply, co_await ask(command, event));
  FRESHET_CO_TRY(text, reply->string());
  const auto parts = redis::split_words(*text);
  if (parts.size() < 11) co_return tl::unexpected(redis::malformed_reply("track"));
  const auto number = [&](std::size_t i) { return redis::parse_or_zero<std::int64_t>(parts[i]); };
  const auto time = [&](std::size_t i) { return UnixSeconds{seconds{number(i)}}; };
  Article article;
  article.counts = {number(0), number(1), number(2), number(0)};
  article.first = time(3);
  article.published = time(4);
  article.hidden = parts[5] == "1";
  article.listed = parts[5] != kNotListed;
  article.version = number(6);
  const UnixSeconds now = time(7);
  const EngagementSettings& engagement = settings_.engagement;
  for (const Model& model : kModels) {
    if (is_shown(article) && model.base != nullptr)
      behind_.placing.add(model, place_in(model, event.item.str(), article, settings_), now);
  }
  if (article.listed) {
    behind_.contributions.add(event.counted_as, event.standing, event.item,
                              {.pv = number(8), .uv = number(9), .dwell_ms = number(10)});
  }
  const double score =
      base_score(article.counts, engagement) * decay(now - article.first, engagement.half_life);
  const bool began = parts.size() > 11 && parts[11] == "1";
  const Effect effect{article.listed, began, article.listed && number(9) > 0};
  co_return TrackCounts{article.counts.pv, article.counts.uv, plain_mean_dwell(article.counts), score,
                        effect};
}

Result<void> RedisHotStore::track_later(const TrackEvent& event) {
  TrackEvent kept = event;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  kept.at = wall_now();
  return behind_.deferred.spool(stored(kept));
}

// --- views

// Its network's first view, which is the only one that counts, adds to the score what its own date
// makes of it.
Pipeline RedisHotStore::unlisted_command(const ViewEvent& event, bool may_begin) const {
  const std::string_view id = event.item.view();
  const std::string key = event.event.empty() ? std::string() : keys_.view_event(id, event.event.view());
  const UnixSeconds now = event.at.value_or(wall_now());
  const double total = view_increment(true, settings_.views);
  Pipeline out = unlisted(keys_.article(id), key, event.standing, event.published_at, event.at, may_begin);
  out.arg(settings_.views.counter_ttl.count())
      .arg("")
      .arg(total)
      .arg(view_score(total, event.published_at.value_or(now), now, settings_.views));
  return out;
}

Pipeline RedisHotStore::view_command(const ViewEvent& event, std::int64_t day) const {
  const std::string_view id = event.item.view();
  const ViewsSettings& views = settings_.views;
  Pipeline out;
  out.script(scripts::kView)
      .key(keys_.article(id))
      .key(keys_.dedup(id, event.fingerprint))
      .key(keys_.uv_day(id, UnixSeconds{seconds{day * kDaySeconds}}));
  if (!event.event.empty()) out.key(keys_.view_event(id, event.event.view()));
  out.arg(event.standing.in_uv ? std::string_view(event.fingerprint) : "");
  redis::append_optional_time(out, event.published_at);
  out.arg(day);
  redis::append_optional_time(out, event.at);
  out.arg(views.dedup_window.count())
      .arg(views.uv_ttl.count())
      .arg(views.counter_ttl.count())
      .arg(views.pv_weight)
      .arg(views.uv_weight)
      .arg(views.base_hours)
      .arg(views.gamma)
      .arg(unknown_argument(event.standing));
  return out;
}

std::int64_t RedisHotStore::today() const { return unix_s(wall_now()) / kDaySeconds + day_offset_; }

Task<Result<ViewOutcome>> RedisHotStore::view(const ViewEvent& event) {
  std::int64_t day = event.at ? unix_s(*event.at) / kDaySeconds : today();
  for (int attempt = 0;; ++attempt) {
    const Pipeline command = view_command(event, day);
    behind_.placing.expect(event.item.view());
    FRESHET_CO_TRY(reply, co_await ask(command, event));
    if (reply->is_error()) {
      const std::string_view line = reply->error();
      const auto redis_day = redis::has_code(line, redis::word::kDayChanged)
                                 ? redis::parse<std::int64_t>(redis::after_code(line))
                                 : std::nullopt;
      if (!redis_day || attempt > 0) co_return tl::unexpected(redis::classify(line));
      day_offset_ += *redis_day - day;
      day = *redis_day;
      continue;
    }
    FRESHET_CO_TRY(text, reply->string());
    if (*text == "dedup") co_return ViewOutcome{true, false, 0};
    const auto parts = redis::split_words(*text);
    if (parts.size() < 8) co_return tl::unexpected(redis::malformed_reply("view"));
    const auto number = [&](std::size_t i) { return redis::parse_or_zero<double>(parts[i]); };
    const bool first_today = parts[0] == "1", hidden = parts[5] == "1", listed = parts[5] != kNotListed;
    const bool is_new = parts[7] == "1", began = parts.size() > 8 && parts[8] == "1";
    const double inc = number(1);
    if (listed && !hidden) {
      behind_.placing.add(kByViews,
                          {.id = event.item.str(),
                           .place = number(3),
                           .published = UnixSeconds{seconds{redis::to_int(parts[4])}},
                           .version = redis::parse_or_zero<std::int64_t>(parts[6]),
                           .views_total = number(2)},
                          {});
    }
    if (listed && is_new) {
      behind_.contributions.add(event.counted_as, event.standing, event.item,
                                {.views = 1, .first_views = first_today ? 1 : 0, .views_score = inc});
    }
    co_return ViewOutcome{false, first_today, inc, Effect{listed, began, listed && is_new && first_today}};
  }
}

Result<void> RedisHotStore::view_later(const ViewEvent& event) {
  ViewEvent kept = event;
  if (kept.event.empty()) kept.event = EventId::trusted(new_event_id_());
  kept.at = wall_now();
  return behind_.deferred.spool(stored(kept));
}

// --- stats

Task<Result<std::vector<hot::ItemStats>>> RedisHotStore::stats(const std::vector<ItemId>& items,
                                                               Ranks ranks) {
  std::vector<ItemStats> out;
  if (items.empty()) co_return out;
  const UnixSeconds day{seconds{today() * kDaySeconds}};
  // Of an item.
  const std::size_t commands = 2 + (ranks == Ranks::kCounted ? 2 * kModels.size() : 0);
  Pipeline command;
  command.add("TIME");
  for (const ItemId& item : items) {
    const std::string_view id = item.view();
    append_article(command, keys_, id);
    command.add("SCARD", keys_.uv_day(id, day));
    if (ranks == Ranks::kLeftOut) continue;
    const redis::PartitionKeys group = keys_.partition_for(id);
    for (const Model& model : kModels)
      command.add("ZSCORE", group.rank(model), id).add("ZREVRANK", group.rank(model), id);
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  const UnixSeconds now{seconds{redis::to_int(redis::string_at(replies->front(), 0))}};
  for (std::size_t i = 1; i < replies->size(); i += commands) {
    const redis::Reply* at = &(*replies)[i];
    const Article article = article_of(at[0], now, settings_);
    out.push_back({.known = article.counted(),
                   .listed = article.listed,
                   .pv = article.counts.pv,
                   .uv = article.counts.uv,
                   .dwell_sum_ms = article.counts.dwell_sum_ms,
                   .dwell_count = article.counts.dwell_count,
                   .first = article.first,
                   .now = now,
                   .ranked = {},
                   .views_pv = article.views,
                   .views_total = article.views_total,
                   .uv_today = at[1].integer().value_or(0),
                   .shown = article.shown});
    for (const Model& model : kModels) {
      if (ranks == Ranks::kLeftOut) break;
      const redis::Reply* of = &at[2 + 2 * index_of(model)];
      Ranked& ranked = out.back().ranked.at(index_of(model));
      ranked.place = redis::parse<double>(of[0].text());
      if (const auto above = of[1].integer()) ranked.rank = *above + 1;
    }
  }
  if (keys_.partition_count() > 1) {
    FRESHET_CO_TRY(added, co_await add_other_groups(items, out));
  }
  co_return out;
}

// To each rank, which is one in the article's own group, how many of the others stand above it.
Task<Result<void>> RedisHotStore::add_other_groups(const std::vector<ItemId>& items,
                                                   std::vector<ItemStats>& stats) {
  Pipeline ask;
  const auto each_other = [&](const auto& what) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      for (const Model& model : kModels) {
        Ranked& ranked = stats[i].ranked.at(index_of(model));
        if (!ranked.place || !ranked.rank) continue;
        for (unsigned g = 0; g < keys_.partition_count(); ++g) {
          if (g != keys_.partition_of(items[i].view())) what(items[i], ranked, keys_.partition(g).rank(model));
        }
      }
    }
  };
  each_other([&](const ItemId&, const Ranked& ranked, const std::string& rank) {
    ask.add("ZCOUNT", rank, *ranked.place, "+inf").add("ZRANGEBYSCORE", rank, *ranked.place, *ranked.place);
  });
  if (ask.empty()) co_return Result<void>();
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, ask));
  const redis::Reply* at = replies->data();
  each_other([&](const ItemId& item, Ranked& ranked, const std::string&) {
    *ranked.rank += at[0].integer().value_or(0);
    for (std::size_t i = 0; i < at[1].size(); ++i) *ranked.rank -= redis::string_at(at[1], i) < item.view();
    at += 2;
  });
  co_return Result<void>();
}

}  // namespace freshet::hot
