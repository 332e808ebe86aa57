#include "core/hot/added.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>

#include "core/hot/article.h"
#include "core/hot/placing.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::size_t kItemsAtOnce = 100;
constexpr std::size_t kVisitorsAtOnce = 64;
constexpr int kTries = 4;

// Of the visitor, as added.lua names them.
constexpr std::string_view kNetwork = "network", kBeyond = "beyond";

constexpr int kPvShift = 42, kViewsShift = 31;

// What is remembered of an item: fields "t:{item}", "u:{item}" and so on; "" where there is none.
// added.lua says what they hold.
struct Fields {
  static constexpr std::array<char, 4> kLetters{'t', 'u', 'v', 's'};
  std::array<std::string_view, 4> values;

  void set(char letter, std::string_view value) {
    for (std::size_t i = 0; i < kLetters.size(); ++i) {
      if (kLetters[i] == letter) values[i] = value;
    }
  }
  Added added() const {
    const auto [track, more_uv, views, score] = values;
    const auto low = [](std::int64_t packed, int shift) { return packed & ((std::int64_t{1} << shift) - 1); };
    Added out;
    const auto t = redis::parse_or_zero<std::int64_t>(track), v = redis::parse_or_zero<std::int64_t>(views);
    out.pv = t >> kPvShift;
    out.dwell_ms = low(t, kPvShift);
    out.uv = (out.pv > 0 ? 1 : 0) + redis::parse_or_zero<std::int64_t>(more_uv);
    out.views = v >> kViewsShift;
    out.first_views = low(v, kViewsShift);
    out.views_score = redis::parse_or_zero<double>(score);
    return out;
  }
};

class Purge {
 public:
  Purge(redis::Redis& redis, const Settings& settings, const redis::Keys& keys, std::string_view visitor)
      : redis_(redis), settings_(settings), keys_(keys), visitor_(visitor) {}

  // Appends what was taken back to `done`.
  Task<Result<void>> run(std::vector<std::string> ids, std::vector<AddedTo>& done) {
    for (int attempt = 0; attempt < kTries && !ids.empty(); ++attempt) {
      FRESHET_CO_TRY(busy, co_await subtract(ids, done));
      ids = std::move(*busy);
    }
    if (!ids.empty()) co_return fail(ErrorCode::kConflict, "item_busy", {}, ids.front());
    co_return Result<void>();
  }

 private:
  // Those that were changed between the two steps.
  Task<Result<std::vector<std::string>>> subtract(const std::vector<std::string>& ids,
                                                  std::vector<AddedTo>& done) {
    Pipeline look;
    for (const std::string& id : ids) {
      look.command(2 + Fields::kLetters.size()).arg("HMGET").arg(keys_.added(visitor_));
      for (const char letter : Fields::kLetters) look.arg(std::string(1, letter) + ":" + id);
    }
    FRESHET_CO_TRY(found, co_await redis::run_all(redis_, look));
    Pipeline command;
    std::vector<Added> added;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Fields fields;
      for (std::size_t j = 0; j < fields.values.size(); ++j)
        fields.values[j] = redis::text_at((*found)[i], j);
      added.push_back(fields.added());
      append(command, ids[i], fields, added.back());
      append_article(command, keys_, ids[i]);
    }
    command.add("TIME");
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
    const UnixSeconds now{seconds{redis::whole(redis::text_at(replies->back(), 0))}};
    std::vector<std::string> busy;
    Places places;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if ((*replies)[2 * i].integer().value_or(0) == 0) {
        busy.push_back(ids[i]);
        continue;
      }
      const Article article = article_of((*replies)[2 * i + 1], now, settings_);
      add_places(places, ids[i], article, settings_, added[i].views > 0 ? Leaves::kAll : Leaves::kComputed);
      done.push_back({ItemId::trusted(ids[i]), added[i]});
    }
    Pipeline place;
    append_places(place, places, now, settings_, keys_);
    if (!place.empty()) {
      FRESHET_CO_TRY(placed, co_await redis::run_all(redis_, place));
    }
    co_return busy;
  }

  void append(Pipeline& out, const std::string& id, const Fields& fields, const Added& added) const {
    out.script(scripts::kPurgeItem).key(keys_.added(visitor_)).key(keys_.article(id)).key(keys_.uv_hll(id));
    out.arg(id);
    for (const std::string_view value : fields.values) out.arg(value);
    const ViewsSettings& views = settings_.views;
    const double total = views.pv_weight * static_cast<double>(added.views) +
                         views.uv_weight * static_cast<double>(added.first_views);
    out.arg(added.pv).arg(added.uv).arg(added.dwell_ms);
    out.arg(total).arg(added.views_score).arg(added.views);
    out.arg(settings_.engagement.counter_ttl.count()).arg(views.counter_ttl.count());
  }

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  const std::string_view visitor_;
};

}  // namespace

Added& Added::operator+=(const Added& other) {
  pv += other.pv;
  uv += other.uv;
  dwell_ms += other.dwell_ms;
  views += other.views;
  first_views += other.first_views;
  views_score += other.views_score;
  return *this;
}

Contributions::Contributions(redis::Deferred& deferred, const Settings& settings, redis::Keys keys,
                             NewName new_name, redis::After after)
    : deferred_(deferred),
      settings_(settings),
      keys_(std::move(keys)),
      new_name_(std::move(new_name)),
      timer_(std::move(after), kEvery, [this] { flush(); }) {}

void Contributions::add(const VisitorId& visitor, const Standing& standing, const ItemId& item,
                        const Added& added) {
  const bool nothing = added.pv == 0 && added.uv == 0 && added.dwell_ms == 0 && added.views == 0;
  if (settings_.limits.remember.count() == 0 || visitor.empty() || nothing) return;
  Visitor& of = visitors_[visitor.str()];
  of.network = standing.network;
  if (!standing.in_uv) ++of.beyond;
  const auto [at, is_new] = of.articles.try_emplace(item.str(), added);
  is_new ? static_cast<void>(++waiting_) : static_cast<void>(at->second += added);
  if (waiting_ >= kMost) return flush();
  timer_.start();
}

void Contributions::append(Pipeline& out, std::span<const Visitors::value_type* const> visitors) const {
  out.script(scripts::kAdded);
  for (const auto* each : visitors) out.key(keys_.added(each->first));
  out.arg(settings_.limits.remember.count()).arg(new_name_().substr(0, 8));
  for (const auto* each : visitors) {
    const Visitor& of = each->second;
    out.arg(of.network).arg(of.beyond).arg(of.articles.size());
    for (const auto& [id, added] : of.articles) {
      out.arg(id)
          .arg((added.pv << kPvShift) + added.dwell_ms)
          .arg(added.pv)
          .arg(added.uv)
          .arg((added.views << kViewsShift) + added.first_views)
          .arg(added.views_score);
    }
  }
}

// Lost when there is no room at all.
void Contributions::flush() {
  std::map<unsigned, std::vector<const Visitors::value_type*>> calls;
  for (const auto& each : visitors_) calls[keys_.call_of(keys_.added(each.first))].push_back(&each);
  Pipeline out;
  for (const auto& [call, visitors] : calls) {
    for (std::size_t from = 0; from < visitors.size(); from += kVisitorsAtOnce)
      append(out, std::span(visitors).subspan(from, std::min(kVisitorsAtOnce, visitors.size() - from)));
  }
  visitors_.clear();
  waiting_ = 0;
  if (!out.empty()) deferred_.post(std::move(out));
}

std::vector<AddedTo> read_added(const redis::Reply& hash) {
  std::map<std::string_view, Fields> items;
  for (std::size_t i = 0; i + 1 < hash.size(); i += 2) {
    const std::string_view field = redis::text_at(hash, i);
    if (field.size() > 2 && field[1] == ':')
      items[field.substr(2)].set(field[0], redis::text_at(hash, i + 1));
  }
  std::vector<AddedTo> out;
  out.reserve(items.size());
  for (const auto& [id, fields] : items) out.push_back({ItemId::trusted(std::string(id)), fields.added()});
  std::ranges::stable_sort(out, std::greater(),
                           [](const AddedTo& each) { return each.added.pv + each.added.views; });
  return out;
}

CameFrom read_came_from(const redis::Reply& hash) {
  CameFrom out;
  for (std::size_t i = 0; i + 1 < hash.size(); i += 2) {
    const std::string_view field = redis::text_at(hash, i), value = redis::text_at(hash, i + 1);
    if (field == kNetwork) out.network = value;
    if (field == kBeyond) out.beyond = redis::parse_or_zero<std::int64_t>(value);
  }
  return out;
}

Task<Result<std::vector<AddedTo>>> added_by(redis::Redis& redis, const redis::Keys& keys,
                                            std::string_view visitor) {
  Pipeline command;
  command.add("HGETALL", keys.added(visitor));
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis, command));
  co_return read_added(*reply);
}

Task<Result<std::vector<AddedTo>>> take_back(redis::Redis& redis, const Settings& settings,
                                             const redis::Keys& keys, std::string_view visitor,
                                             const std::vector<ItemId>& items) {
  std::vector<AddedTo> done;
  Purge purge(redis, settings, keys, visitor);
  for (std::size_t from = 0; from < items.size(); from += kItemsAtOnce) {
    std::vector<std::string> ids;
    for (std::size_t i = from; i < std::min(from + kItemsAtOnce, items.size()); ++i)
      ids.push_back(items[i].str());
    FRESHET_CO_TRY(ok, co_await purge.run(std::move(ids), done));
  }
  Pipeline tell;
  tell.add("INCR", keys.epoch()).then().add("PUBLISH", keys.epoch(), "all");
  FRESHET_CO_TRY(told, co_await redis.run(tell));
  co_return done;
}

}  // namespace freshet::hot
