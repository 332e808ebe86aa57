#include "core/hot/hot_store.h"

#include <type_traits>

#include "core/hot/article.h"
#include "core/hot/engagement.h"
#include "core/hot/spool_records.h"
#include "core/hot/views.h"
#include "core/redis/fields.h"
#include "core/redis/script_errors.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kDaySeconds = 86400;

// unlisted.lua returns this where the other scripts return whether the article is hidden.
constexpr std::string_view kUnlistedFlag = "2";
// A reply of track.lua or view.lua has this status if a publish time replaced a client's.
constexpr std::string_view kRedated = "3";

// The field `trend`, which follows the last word of a reply; nullopt: nothing follows.
std::optional<TrendSums> parse_trend_after(std::string_view last_word, std::string_view reply) {
  const auto end = static_cast<std::size_t>(last_word.data() - reply.data()) + last_word.size();
  return end < reply.size() ? parse_trend(reply.substr(end + 1)) : std::nullopt;
}

// Short, so that Redis stores the hash of an unlisted article compactly (hash-max-listpack-value).
constexpr std::size_t kNetworkBytes = 2;
constexpr seconds kUnlistedTtl{3600};  // as in unlisted.lua

// Arguments of parts/add_view.lua.
void append_view_settings(Pipeline& out, const ViewsSettings& views) {
  out.arg(views.uv_ttl.count()).arg(views.counter_ttl.count()).arg(views.pv_weight).arg(views.uv_weight);
  out.arg(views.base_hours).arg(views.gamma);
}

// The part of the unlisted.lua call that reports and views share.
Pipeline unlisted_script_call(const std::string& article, const std::string& event_key,
                              const EventAdmission& admission, const std::optional<UnixSeconds>& published_at,
                              const std::optional<UnixSeconds>& at, bool may_create) {
  Pipeline out;
  out.script(scripts::kUnlisted).key(article);
  if (!event_key.empty()) out.key(event_key);
  out.arg(std::string_view(admission.wide_network).substr(0, kNetworkBytes));
  redis::append_optional_time(out, published_at);
  redis::append_optional_time(out, at);
  out.arg(may_create ? 1 : 0);
  return out;
}

}  // namespace

RedisHotStore::RedisHotStore(redis::Redis& redis, DeferredWriters writers, const Settings& settings,
                             redis::Keys keys, EventIdGenerator new_event_id)
    : redis_(redis),
      writers_(writers),
      settings_(settings),
      keys_(std::move(keys)),
      new_event_id_(std::move(new_event_id)) {}

// How the scripts treat unknown articles (see track.lua).
int RedisHotStore::unknown_item_policy(const EventAdmission& admission) const {
  if (settings_.items_unknown == "reject") return 1;
  if (!admission.is_from_client()) return 0;
  return settings_.items_unknown == "count" ? 2 : 3;
}

// Call if a counting script failed: it may have counted although its reply was lost.
void RedisHotStore::rank_again_if_lost(const ItemId& item, const Error& error) {
  if (error.code == ErrorCode::kUnknownOutcome && !is_invisible_alias(item.view()))
    writers_.rank_updater.rank_again(item.str());
}

template <class Event>
Task<Result<redis::Reply>> RedisHotStore::run_count_script(const Event& event) {
  if (!is_invisible_alias(event.item.view())) writers_.rank_updater.mark_in_flight(event.item.view());
  std::int64_t day = event.occurred_at ? unix_s(*event.occurred_at) / kDaySeconds : today();
  // The day may change, and the article may become listed or expire between the calls; retry.
  constexpr int kMaxRetries = 3;
  for (int attempt = 0;; ++attempt) {
    const Pipeline command = count_command(event, day);
    auto replies = co_await redis_.run(command);
    if (!replies) {
      rank_again_if_lost(event.item, replies.error());
      co_return tl::unexpected(replies.error());
    }
    const std::string_view error = replies->front().error();
    const auto redis_day = redis::has_code(error, redis::script_code::kDayChanged)
                               ? redis::parse<std::int64_t>(redis::after_code(error))
                               : std::nullopt;
    if (redis_day && attempt == 0) {
      day_offset_ += *redis_day - day;
      day = *redis_day;
      continue;
    }
    if (!redis::has_code(error, redis::script_code::kUnverified)) co_return std::move(replies->front());
    Pipeline unlisted_call = unlisted_command(event, false);
    auto unlisted_replies = co_await redis_.run(unlisted_call);
    if (!unlisted_replies) {
      rank_again_if_lost(event.item, unlisted_replies.error());
      co_return tl::unexpected(unlisted_replies.error());
    }
    if (unlisted_replies->front().text() == redis::script_code::kCreates) {
      FRESHET_CO_TRY(allowed, co_await check_unverified_quota(event.item.view(), event.admission));
      unlisted_call = unlisted_command(event, true);
      FRESHET_CO_TRY(created, co_await redis_.run(unlisted_call));
      unlisted_replies = std::move(created);
    }
    if (unlisted_replies->front().text() != redis::script_code::kVerified) {
      constexpr std::size_t kIsNewField = std::is_same_v<Event, TrackEvent> ? 8 : 7;
      update_unverified_index(event.item.view(), unlisted_replies->front().text(), kIsNewField);
      co_return std::move(unlisted_replies->front());
    }
    if (attempt == kMaxRetries) co_return fail(ErrorCode::kUnavailable, "unavailable");
  }
}

// Checks the partition's quota of unverified articles. Concurrent creations are not seen, so the
// quota may be exceeded slightly.
Task<Result<void>> RedisHotStore::check_unverified_quota(std::string_view id,
                                                         const EventAdmission& admission) {
  const auto quota_error = [](const char* detail) {
    return fail(ErrorCode::kRateLimited, "unverified_quota", {}, detail);
  };
  if (!admission.may_create) co_return quota_error("this network has created too many unverified articles");
  Pipeline count;
  const std::string unlisted = keys_.partition_for(id).unverified();
  count.add("ZREMRANGEBYSCORE", unlisted, "-inf", unix_s(wall_now()));
  count.add("ZCARD", unlisted);
  FRESHET_CO_TRY(counts, co_await redis::run_all(redis_, count));
  const std::int64_t limit = settings_.items_unknown_max / keys_.partition_count();
  if (counts->back().integer().value_or(0) >= limit)
    co_return quota_error("too many unverified articles exist");
  co_return Result<void>();
}

// `reply`: the reply of unlisted.lua. `is_new_field`: index of the word that is 1 if the event
// counted.
void RedisHotStore::update_unverified_index(std::string_view id, std::string_view reply,
                                            std::size_t is_new_field) {
  const auto fields = redis::split_words(reply);
  constexpr std::size_t kHiddenField = 5;
  if (fields.size() <= is_new_field) return;
  if (is_invisible_alias(id)) return;  // limited by the number of items instead
  const bool is_unlisted = fields[kHiddenField] == kUnlistedFlag;
  const bool is_new = fields[is_new_field] == "1";
  if (is_unlisted && !is_new) return;
  const std::string unlisted = keys_.partition_for(id).unverified();
  Pipeline update;
  if (is_unlisted)
    update.add("ZADD", unlisted, unix_s(wall_now() + kUnlistedTtl), id);
  else
    update.add("ZREM", unlisted, id);
  writers_.write_queue.post(std::move(update));
}

// Corrects the article in all ranks and its date. Nothing is lost if that fails, except that
// windows use the old date until the item is put: rank maintenance repeats the rest.
Task<void> RedisHotStore::rank_redated(const ItemId& item, UnixSeconds published) {
  const std::vector<std::string> ids(1, item.str());
  const auto ranked = co_await rank_articles(redis_, ids, settings_, keys_);
  static_cast<void>(ranked);
  Pipeline date;
  date.add("ZADD", keys_.partition_for(item.view()).published(), "XX", unix_s(published), item.view());
  writers_.write_queue.post(std::move(date));
}

// --- engagement

Pipeline RedisHotStore::unlisted_command(const TrackEvent& event, bool may_create) const {
  const std::string_view id = event.item.view();
  const EngagementSettings& engagement = settings_.engagement;
  const std::string key =
      event.event_id.empty() ? std::string() : keys_.track_event(id, event.event_id.view());
  const std::int64_t dwell_ms =
      event.untrusted_dwell ? std::min(event.dwell_ms, engagement.max_initial_dwell_ms) : event.dwell_ms;
  const bool is_view = settings_.views.from_track;
  const seconds ttl =
      is_view ? std::max(engagement.counter_ttl, settings_.views.counter_ttl) : engagement.counter_ttl;
  Pipeline out = unlisted_script_call(keys_.article(id), key, event.admission, event.published_at,
                                      event.occurred_at, may_create);
  out.arg(ttl.count()).arg(dwell_ms);
  if (is_view)
    append_unlisted_view(out);
  else
    out.arg("").arg(settings_.items_unknown_networks).arg(settings_.trending.birth_views);
  return out;
}

Pipeline RedisHotStore::count_command(const TrackEvent& event, std::int64_t day) const {
  const std::string_view id = event.item.view();
  const EngagementSettings& engagement = settings_.engagement;
  const ViewsSettings& views = settings_.views;
  Pipeline out;
  out.script(scripts::kTrack)
      .key(keys_.article(id))
      .key(keys_.uv_hll(id))
      .key(keys_.session(id, event.session.view()))
      .key(keys_.uv_day(id, UnixSeconds{seconds{day * kDaySeconds}}));
  if (!event.event_id.empty()) out.key(keys_.track_event(id, event.event_id.view()));
  out.arg(event.admission.may_count ? event.visitor.view() : "");
  // An event from the spool may predate a lower cap.
  out.arg(std::min(event.dwell_ms, engagement.dwell_cap_ms));
  redis::append_optional_time(out, event.published_at);
  redis::append_optional_time(out, event.occurred_at);
  out.arg(engagement.session_window.count())
      .arg(engagement.counter_ttl.count())
      .arg(unknown_item_policy(event.admission));
  event.untrusted_dwell ? out.arg(engagement.max_initial_dwell_ms) : out.arg("");
  event.admission.is_from_client() ? out.arg(1) : out.arg("");
  views.from_track ? out.arg(day) : out.arg("");
  append_view_settings(out, views);
  out.arg(settings_.trending.birth_views);
  return out;
}

Task<Result<TrackResult>> RedisHotStore::track(const TrackEvent& event) {
  const bool is_alias = is_invisible_alias(event.item.view());
  FRESHET_CO_TRY(reply, co_await run_count_script(event));
  if (redis::has_code(reply->error(), redis::script_code::kNotVisible)) {
    TrackEvent unseen = event;
    unseen.item = invisible_alias(event.item);
    auto result = co_await track(unseen);
    co_return result;
  }
  FRESHET_CO_TRY(text, reply->string());
  const auto fields = redis::split_words(*text);
  // Indices of what the report added to the views model, and of the status. A reply stored by an
  // earlier version lacks them.
  constexpr std::size_t kFirstToday = 11, kIncrement = 12, kTotal = 13, kScore = 14, kStatus = 15;
  if (fields.size() < kFirstToday) co_return tl::unexpected(redis::malformed_reply("track"));
  const auto field = [&](std::size_t i) { return i < fields.size() ? fields[i] : std::string_view(); };
  const auto number = [&](std::size_t i) { return redis::parse_or_zero<std::int64_t>(field(i)); };
  const auto fraction = [&](std::size_t i) { return redis::parse_or_zero<double>(field(i)); };
  const auto time = [&](std::size_t i) { return UnixSeconds{seconds{number(i)}}; };
  Article article;
  article.counts = {number(0), number(1), number(2), number(0)};
  article.decay_start = time(3);
  article.published = time(4);
  article.hidden = fields[5] == "1";
  article.listed = fields[5] != kUnlistedFlag;
  article.version = number(6);
  const UnixSeconds now = time(7);
  const EngagementSettings& engagement = settings_.engagement;
  const std::int64_t views = settings_.views.from_track ? number(8) : 0;
  if (views > 0 || fraction(kScore) > 0) {
    article.views_total = fraction(kTotal);
    article.views_score = fraction(kScore);
  }
  const std::string_view status = field(kStatus);
  if (!status.empty()) article.trend = parse_trend_after(status, *text);
  const bool refused = status == "2";
  if (status == kRedated && !is_alias) co_await rank_redated(event.item, *article.published);
  for (const Model& model : kModels) {
    const bool is_known = model.base != nullptr || rank_score(article, model, settings_);
    if (!refused && !is_alias && is_rankable(article) && is_known)
      writers_.rank_updater.add(model, rank_write_for(model, event.item.str(), article, settings_), now);
  }
  if (article.listed && !is_alias) {
    if (!article.hidden) writers_.view_counts.add(event.item, event.occurred_at.value_or(now), number(8));
    writers_.contributions.add(event.attributed_to, event.admission.network, event.item,
                               {.pv = number(8),
                                .uv = number(9),
                                .dwell_ms = number(10),
                                .views = views,
                                .first_views = number(kFirstToday),
                                .views_score = fraction(kIncrement),
                                .first_version = article.version,
                                .trend = number(8) > 0 ? trend_of_view(now) : no_trend()});
  }
  const double score =
      base_score(article.counts, engagement) * decay(now - article.decay_start, engagement.half_life);
  const EventOutcome outcome{.listed = article.listed,
                             .created = status == "1",
                             .counted = number(8) > 0 || number(9) > 0,
                             .refused = refused};
  co_return TrackResult{article.counts.pv, article.counts.uv, plain_mean_dwell(article.counts), score,
                        outcome};
}

Result<void> RedisHotStore::spool_track(const TrackEvent& event) {
  TrackEvent spooled = event;
  if (spooled.event_id.empty()) spooled.event_id = EventId::trusted(new_event_id_());
  spooled.occurred_at = wall_now();
  return writers_.write_queue.spool(to_spool_record(spooled));
}

// --- views

// Only the first view from each network counts.
void RedisHotStore::append_unlisted_view(Pipeline& out) const {
  out.arg(view_increment(true, settings_.views))
      .arg(settings_.items_unknown_networks)
      .arg(settings_.trending.birth_views)
      .arg(settings_.views.base_hours)
      .arg(settings_.views.gamma);
}

Pipeline RedisHotStore::unlisted_command(const ViewEvent& event, bool may_create) const {
  const std::string_view id = event.item.view();
  const std::string key =
      event.event_id.empty() ? std::string() : keys_.view_event(id, event.event_id.view());
  Pipeline out = unlisted_script_call(keys_.article(id), key, event.admission, event.published_at,
                                      event.occurred_at, may_create);
  out.arg(settings_.views.counter_ttl.count()).arg("");
  append_unlisted_view(out);
  return out;
}

Pipeline RedisHotStore::count_command(const ViewEvent& event, std::int64_t day) const {
  const std::string_view id = event.item.view();
  const ViewsSettings& views = settings_.views;
  Pipeline out;
  out.script(scripts::kView)
      .key(keys_.article(id))
      .key(keys_.dedup(id, event.fingerprint))
      .key(keys_.uv_day(id, UnixSeconds{seconds{day * kDaySeconds}}));
  if (!event.event_id.empty()) out.key(keys_.view_event(id, event.event_id.view()));
  out.arg(event.admission.may_count ? std::string_view(event.fingerprint) : "");
  redis::append_optional_time(out, event.published_at);
  out.arg(day);
  redis::append_optional_time(out, event.occurred_at);
  out.arg(views.dedup_window.count());
  append_view_settings(out, views);
  out.arg(unknown_item_policy(event.admission));
  event.admission.is_from_client() ? out.arg(1) : out.arg("");
  out.arg(settings_.trending.birth_views);
  return out;
}

std::int64_t RedisHotStore::today() const { return unix_s(wall_now()) / kDaySeconds + day_offset_; }

Task<Result<ViewResult>> RedisHotStore::view(const ViewEvent& event) {
  const bool is_alias = is_invisible_alias(event.item.view());
  FRESHET_CO_TRY(reply, co_await run_count_script(event));
  if (redis::has_code(reply->error(), redis::script_code::kNotVisible)) {
    ViewEvent unseen = event;
    unseen.item = invisible_alias(event.item);
    auto result = co_await view(unseen);
    co_return result;
  }
  FRESHET_CO_TRY(text, reply->string());
  if (*text == "dedup") co_return ViewResult{.dedup = true};
  if (*text == "refused") co_return ViewResult{.outcome = {.refused = true}};
  const auto fields = redis::split_words(*text);
  if (fields.size() < 8) co_return tl::unexpected(redis::malformed_reply("view"));
  const auto number = [&](std::size_t i) { return redis::parse_or_zero<double>(fields[i]); };
  const bool first_today = fields[0] == "1", hidden = fields[5] == "1", listed = fields[5] != kUnlistedFlag;
  const std::string_view status = fields.size() > 9 ? fields[9] : "";
  const bool is_new = fields[7] == "1", created = status == "1";
  const double increment = number(1);
  if (status == kRedated && !is_alias)
    co_await rank_redated(event.item, UnixSeconds{seconds{redis::to_int(fields[4])}});
  // A view that lists the article may not count itself.
  Article article;
  article.views = 1;  // or more
  article.views_total = number(2);
  article.views_score = number(3);
  if (!status.empty()) article.trend = parse_trend_after(status, *text);
  article.published = UnixSeconds{seconds{redis::to_int(fields[4])}};
  article.version = redis::parse_or_zero<std::int64_t>(fields[6]);
  if (listed && !hidden && !is_alias && (is_new || number(3) > 0)) {
    for (const Model* model : {&kViewsModel, &kTrendingModel}) {
      RankWrite write = rank_write_for(*model, event.item.str(), article, settings_);
      if (write.score) writers_.rank_updater.add(*model, std::move(write), {});
    }
  }
  if (listed && is_new && !is_alias) {
    const UnixSeconds at = std::min(event.occurred_at.value_or(wall_now()), wall_now());
    if (!hidden) writers_.view_counts.add(event.item, at);
    writers_.contributions.add(event.attributed_to, event.admission.network, event.item,
                               {.views = 1,
                                .first_views = first_today ? 1 : 0,
                                .views_score = increment,
                                .first_version = article.version,
                                .trend = article.trend ? trend_of_view(at) : no_trend()});
  }
  co_return ViewResult{.first_today = first_today,
                       .score_inc = increment,
                       .tracked = fields.size() > 8 && fields[8] == "1",
                       .outcome = {.listed = listed, .created = created, .counted = is_new}};
}

Result<void> RedisHotStore::spool_view(const ViewEvent& event) {
  ViewEvent spooled = event;
  if (spooled.event_id.empty()) spooled.event_id = EventId::trusted(new_event_id_());
  spooled.occurred_at = wall_now();
  return writers_.write_queue.spool(to_spool_record(spooled));
}

// --- stats

Task<Result<std::vector<hot::ItemStats>>> RedisHotStore::stats(const std::vector<ItemId>& items,
                                                               Ranks ranks) {
  std::vector<ItemStats> out;
  if (items.empty()) co_return out;
  const UnixSeconds day{seconds{today() * kDaySeconds}};
  const std::size_t commands_per_item = 2 + (ranks == Ranks::kInclude ? 2 * kModels.size() : 0);
  Pipeline command;
  command.add("TIME");
  for (const ItemId& item : items) {
    const std::string_view id = item.view();
    append_article_read(command, keys_, id);
    command.add("SCARD", keys_.uv_day(id, day));
    if (ranks == Ranks::kOmit) continue;
    const redis::PartitionKeys partition = keys_.partition_for(id);
    for (const Model& model : kModels)
      command.add("ZSCORE", partition.rank(model), id).add("ZREVRANK", partition.rank(model), id);
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  const UnixSeconds now{seconds{redis::to_int(redis::string_at(replies->front(), 0))}};
  for (std::size_t i = 1; i < replies->size(); i += commands_per_item) {
    const redis::Reply* at = &(*replies)[i];
    const Article article = parse_article(at[0], now, settings_);
    out.push_back({.known = article.has_counters(),
                   .listed = article.listed,
                   .visible = !article.hidden && article.published.value_or(now) <= now,
                   .pv = article.counts.pv,
                   .uv = article.counts.uv,
                   .dwell_sum_ms = article.counts.dwell_sum_ms,
                   .dwell_count = article.counts.dwell_count,
                   .decay_start = article.decay_start,
                   .now = now,
                   .positions = {},
                   .views_pv = article.views,
                   .views_total = article.views_total,
                   .trend = article.has_counters() ? article.trend : std::nullopt,
                   .uv_today = at[1].integer().value_or(0),
                   .impressions = article.impressions});
    for (const Model& model : kModels) {
      if (ranks == Ranks::kOmit) break;
      const redis::Reply* rank_replies = &at[2 + 2 * index_of(model)];
      RankPosition& position = out.back().positions.at(index_of(model));
      position.score = redis::parse<double>(rank_replies[0].text());
      if (const auto above = rank_replies[1].integer()) position.rank = *above + 1;
    }
  }
  if (keys_.partition_count() > 1) {
    FRESHET_CO_TRY(other_partitions, co_await add_partition_ranks(items, out));
  }
  co_return out;
}

// Each rank so far is relative to the article's own partition: adds the number of higher-ranked
// articles in the other partitions.
Task<Result<void>> RedisHotStore::add_partition_ranks(const std::vector<ItemId>& items,
                                                      std::vector<ItemStats>& stats) {
  Pipeline query;
  const auto for_each_other_partition = [&](const auto& visit) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      for (const Model& model : kModels) {
        RankPosition& position = stats[i].positions.at(index_of(model));
        if (!position.score || !position.rank) continue;
        for (unsigned g = 0; g < keys_.partition_count(); ++g) {
          if (g != keys_.partition_of(items[i].view()))
            visit(items[i], position, keys_.partition(g).rank(model));
        }
      }
    }
  };
  for_each_other_partition([&](const ItemId&, const RankPosition& position, const std::string& rank) {
    query.add("ZCOUNT", rank, *position.score, "+inf")
        .add("ZRANGEBYSCORE", rank, *position.score, *position.score);
  });
  if (query.empty()) co_return Result<void>();
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, query));
  const redis::Reply* at = replies->data();
  for_each_other_partition([&](const ItemId& item, RankPosition& position, const std::string&) {
    *position.rank += at[0].integer().value_or(0);
    for (std::size_t i = 0; i < at[1].size(); ++i) *position.rank -= redis::string_at(at[1], i) < item.view();
    at += 2;
  });
  co_return Result<void>();
}

}  // namespace freshet::hot
