#include "core/hot/placing.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "core/config/config_try.h"
#include "core/redis/fields.h"
#include "core/redis/schema.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::size_t kAtOnce = 500;
// Places of a call, of which one takes Redis 2 to 3 µs: others are served between two calls.
constexpr std::size_t kOfCall = 256;

std::int64_t hour_of(UnixSeconds published) { return unix_s(published) / kHourSeconds; }

void optional_number(Pipeline& out, const std::optional<double>& value) {
  value ? out.arg(*value) : out.arg("");
}

// Of one group.
void append_to(const Model& model, Pipeline& out, std::span<const Place* const> places, UnixSeconds now,
               const Settings& settings, const redis::PartitionKeys& keys, std::int64_t most, Rank rank) {
  const bool computed = model.base != nullptr, next = computed && rank == Rank::kNext;
  out.script(scripts::kPlace)
      .key(next ? keys.staging_rank(model) : keys.rank(model))
      .key(next ? keys.staging_rank_versions(model) : keys.rank_versions(model))
      .key(keys.published())
      .key(keys.hidden())
      .key(keys.meta())
      .key(keys.unranked());
  std::map<std::int64_t, std::size_t> buckets;  // hour → which key, from 1
  if (!computed) {
    out.key(keys.current_bucket_index());
    for (const Place* each : places) {
      const std::int64_t hour = hour_of(each->published);
      if (buckets.emplace(hour, 8 + buckets.size()).second) out.key(keys.current_bucket(hour));
    }
  }
  out.arg(computed ? formula_argument(settings) : "")
      .arg(redis::kSchemaVersion)
      .arg(next ? "next" : "formula")
      .arg(floor_at(model, now, settings))
      .arg(most)
      .arg(settings.views.counter_ttl.count());
  for (const Place* place : places) {
    const Place& each = *place;
    out.arg(each.id);
    optional_number(out, each.place);
    each.counted || each.place ? out.arg(unix_s(each.published)) : out.arg("");
    out.arg(each.version);
    if (computed) continue;
    each.views_total > 0 ? out.arg(each.views_total) : out.arg("");
    const std::int64_t hour = hour_of(each.published);
    out.arg(buckets[hour]).arg(hour);
  }
}

}  // namespace

std::string formula_argument(const Settings& settings) {
  std::string out;
  for (const Model& model : kModels) {
    if (model.base == nullptr) continue;
    for (const std::string_view name : model.parameters) {
      std::array<char, 32> text;
      const auto end =
          std::to_chars(text.data(), text.data() + text.size(), directive_value(name, settings)).ptr;
      out.append(out.empty() ? "" : " ").append(text.data(), end);
    }
  }
  return out;
}

Place place_in(const Model& model, std::string id, const Article& article, const Settings& settings) {
  return {std::move(id),
          place_of(article, model, settings),
          article.published.value_or(article.first),
          article.version,
          article.counted(),
          article.views_total};
}

void add_places(Places& to, const std::string& id, const Article& article, const Settings& settings,
                Leaves leaves) {
  for (const Model& model : kModels) {
    Place place = place_in(model, id, article, settings);
    if (place.place || leaves == Leaves::kAll || (leaves == Leaves::kComputed && model.base != nullptr))
      to.at(index_of(model)).push_back(std::move(place));
  }
}

std::int64_t most_of_group(const Settings& settings, const redis::Keys& keys) {
  constexpr std::int64_t kSpare = 1000;
  return std::min(settings.list.max_members, settings.list.max_members / keys.partition_count() + kSpare);
}

std::size_t append_places(Pipeline& out, const Places& places, UnixSeconds now, const Settings& settings,
                          const redis::Keys& keys, Rank rank) {
  std::size_t of_first = 0;
  for (const Model& model : kModels) {
    std::vector<std::vector<const Place*>> of_group(keys.partition_count());
    for (const Place& each : places.at(index_of(model))) of_group[keys.partition_of(each.id)].push_back(&each);
    for (unsigned g = 0; g < keys.partition_count(); ++g) {
      for (std::span<const Place* const> left = of_group[g]; !left.empty();) {
        const auto some = left.first(std::min(left.size(), kOfCall));
        append_to(model, out, some, now, settings, keys.partition(g), most_of_group(settings, keys), rank);
        if (index_of(model) == 0) ++of_first;
        left = left.subspan(some.size());
      }
    }
  }
  return of_first;
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
    const UnixSeconds now{seconds{redis::to_int(redis::string_at(found->front(), 0))}};
    Places places;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Article article = article_of((*found)[i + 1], now, settings);
      if (article.version != 0 && is_shown(article))
        add_places(places, some[i], article, settings, Leaves::kComputed);
    }
    Pipeline write;
    const std::size_t of_first = append_places(write, places, now, settings, keys, rank);
    if (write.empty()) continue;
    FRESHET_CO_TRY(done, co_await redis::run_all(redis, write));
    for (std::size_t i = 0; i < of_first; ++i) placed += (*done)[i].integer().value_or(0);
  }
  co_return placed;
}

Placing::Placing(redis::WriteQueue& deferred, const Settings& settings, redis::Keys keys, redis::RunAfter after,
                 CrashJournal* note)
    : deferred_(deferred),
      settings_(settings),
      keys_(std::move(keys)),
      timer_(std::move(after), kEvery, [this] { flush(); }),
      noted_(note, kNoted) {}

void Placing::add(const Model& model, Place place, UnixSeconds now) {
  now_ = std::max(now_, now);
  const auto [at, is_new] = places_.at(index_of(model)).try_emplace(place.id, place);
  if (is_new) ++waiting_;
  if (at->second.version <= place.version) at->second = std::move(place);
  if (waiting_ >= kMost) return flush();
  timer_.start();
}

// Lost when there is no room at all: the article's next event places it, or the rank keeper.
void Placing::flush() {
  Places places;
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (auto& [id, place] : std::exchange(places_.at(i), {})) places.at(i).push_back(std::move(place));
  }
  waiting_ = 0;
  Pipeline out;
  append_places(out, places, now_, settings_, keys_);
  if (!out.empty()) deferred_.post(std::move(out));
}

}  // namespace freshet::hot
