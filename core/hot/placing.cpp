#include "core/hot/placing.h"

#include <algorithm>
#include <map>

#include "core/redis/fields.h"
#include "core/redis/schema.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::size_t kAtOnce = 500;

std::int64_t hour_of(UnixSeconds published) { return unix_s(published) / kHourSeconds; }

void optional_number(Pipeline& out, const std::optional<double>& value) {
  value ? out.arg(*value) : out.arg("");
}

template <class Place>
void keep_latest(std::unordered_map<std::string, Place>& to, Place place) {
  const auto [at, added] = to.try_emplace(place.id, place);
  if (!added && at->second.version <= place.version) at->second = std::move(place);
}

template <class Place>
std::vector<Place> take_all(std::unordered_map<std::string, Place>& from) {
  std::vector<Place> out;
  out.reserve(from.size());
  for (auto& [id, place] : from) out.push_back(std::move(place));
  from.clear();
  return out;
}

}  // namespace

RankPlace rank_place(std::string id, const Article& article, const EngagementSettings& settings) {
  return {std::move(id), rank_key_of(article, settings), article.counted() ? article.published : std::nullopt,
          article.version};
}

ViewsPlace views_place(std::string id, const Article& article) {
  return {std::move(id),       is_shown(article) ? article.views_score : std::nullopt,
          article.views_total, article.published.value_or(article.first),
          article.version,     article.counted()};
}

void append_places(Pipeline& out, std::span<const RankPlace> places, UnixSeconds now,
                   const Settings& settings, const redis::Keys& keys, Rank rank) {
  const bool next = rank == Rank::kNext;
  const EngagementSettings& engagement = settings.engagement;
  out.script(scripts::kPlace)
      .key(next ? keys.rank_next() : keys.rank())
      .key(next ? keys.placed_next() : keys.placed())
      .key(keys.published())
      .key(keys.hidden())
      .key(keys.rank_meta())
      .key(keys.unplaced());
  out.arg(formula_argument(engagement))
      .arg(engagement.half_life.count())
      .arg(redis::kSchema)
      .arg(next ? "next" : "formula")
      .arg(rank_key(settings.list.floor, now, engagement.half_life))
      .arg(settings.list.max_members);
  for (const RankPlace& each : places) {
    out.arg(each.id);
    optional_number(out, each.key);
    redis::optional_time(out, each.published);
    out.arg(each.version);
  }
}

void append_places(Pipeline& out, std::span<const ViewsPlace> places, const Settings& settings,
                   const redis::Keys& keys) {
  std::map<std::int64_t, std::size_t> buckets;  // hour → which key, from 1
  out.script(scripts::kPlaceViews)
      .key(keys.score())
      .key(keys.placed_views())
      .key(keys.published())
      .key(keys.hidden())
      .key(keys.current_index());
  for (const ViewsPlace& each : places) {
    const std::int64_t hour = hour_of(each.published);
    if (buckets.emplace(hour, 6 + buckets.size()).second) out.key(keys.current(hour));
  }
  out.arg(settings.list.max_members).arg(settings.views.counter_ttl.count());
  for (const ViewsPlace& each : places) {
    const std::int64_t hour = hour_of(each.published);
    out.arg(each.id);
    optional_number(out, each.score);
    each.total > 0 ? out.arg(each.total) : out.arg("");
    each.counted ? out.arg(unix_s(each.published)) : out.arg("");
    out.arg(each.version).arg(buckets[hour]).arg(hour);
  }
}

Task<Result<std::int64_t>> place_articles(redis::Redis& redis, std::span<const std::string> ids,
                                          const Settings& settings, const redis::Keys& keys, Rank rank) {
  std::int64_t placed = 0;
  for (std::size_t from = 0; from < ids.size(); from += kAtOnce) {
    const auto some = ids.subspan(from, std::min(kAtOnce, ids.size() - from));
    Pipeline read;
    read.add("TIME");
    for (const std::string& id : some) append_article(read, keys, id);
    FRESHET_CO_TRY(found, co_await redis::run_all(redis, read));
    const UnixSeconds now{seconds{redis::whole(redis::text_at(found->front(), 0))}};
    std::vector<RankPlace> ranks;
    std::vector<ViewsPlace> views;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Article article = article_of((*found)[i + 1], now, settings);
      if (article.version == 0 || !is_shown(article)) continue;
      ranks.push_back(rank_place(some[i], article, settings.engagement));
      if (article.views_score) views.push_back(views_place(some[i], article));
    }
    if (ranks.empty()) continue;
    Pipeline write;
    append_places(write, ranks, now, settings, keys, rank);
    if (!views.empty()) append_places(write, views, settings, keys);
    FRESHET_CO_TRY(done, co_await redis::run_all(redis, write));
    placed += done->front().integer().value_or(0);
  }
  co_return placed;
}

Placing::Placing(redis::Deferred& deferred, const Settings& settings, redis::Keys keys, redis::After after,
                 IdNote* note)
    : deferred_(deferred),
      settings_(settings),
      keys_(std::move(keys)),
      timer_(std::move(after), kEvery, [this] { flush(); }),
      noted_(note, kNoted) {}

void Placing::add(RankPlace place, UnixSeconds now) {
  now_ = std::max(now_, now);
  keep_latest(ranks_, std::move(place));
  added();
}

void Placing::add(ViewsPlace place) {
  keep_latest(views_, std::move(place));
  added();
}

void Placing::added() {
  if (waiting() >= kMost) return flush();
  timer_.start();
}

// Lost when there is no room at all: the article's next event places it, or the rank keeper.
void Placing::flush() {
  Pipeline out;
  if (const auto ranks = take_all(ranks_); !ranks.empty()) append_places(out, ranks, now_, settings_, keys_);
  if (const auto views = take_all(views_); !views.empty()) append_places(out, views, settings_, keys_);
  if (!out.empty()) deferred_.post(std::move(out));
}

}  // namespace freshet::hot
