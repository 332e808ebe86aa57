#include "core/hot/added.h"

#include <fmt/format.h>

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
  bool empty() const { return std::ranges::all_of(values, &std::string_view::empty); }
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

// What was set aside of an item, in the visitor's field "p:{item}": "NAME,t,u,v,s". The name is the
// purge's; an article names the last purges that it was changed by.
constexpr std::size_t kNameSize = 16, kMostNames = 8;

std::string set_aside(std::string_view name, const Fields& fields) {
  std::string out(name);
  for (const std::string_view value : fields.values) out.append(",").append(value);
  return out;
}

Fields set_aside_in(std::string_view text) {
  Fields out;
  for (std::string_view& value : out.values) {
    text.remove_prefix(std::min(text.size(), text.find(',')));
    if (!text.empty()) text.remove_prefix(1);
    value = text.substr(0, text.find(','));
  }
  return out;
}

bool has_name(std::string_view names, std::string_view name) {
  for (; !names.empty(); names.remove_prefix(std::min(kNameSize, names.size()))) {
    if (names.substr(0, kNameSize) == name) return true;
  }
  return false;
}

// Takes back what a visitor added to items. Of each item it is set aside in the visitor's hash,
// taken off the article's counters, which remember the purge's name, and forgotten once the article
// is placed anew; so a purge that ended in between is gone on with, and takes nothing twice.
class Purge {
 public:
  Purge(redis::Redis& redis, const Settings& settings, const redis::Keys& keys, std::string_view visitor)
      : redis_(redis), settings_(settings), keys_(keys), visitor_(visitor) {}

  // Appends what was taken back to `done`.
  Task<Result<void>> run(const std::vector<std::string>& ids, std::vector<AddedTo>& done) {
    for (const std::string& id : ids) taken_[id] = {};
    std::vector<std::string> left = ids;
    for (int attempt = 0; attempt < kTries && !left.empty(); ++attempt) {
      FRESHET_CO_TRY(found, co_await set_aside_of(left));
      FRESHET_CO_TRY(busy, co_await take_off(found->aside));
      left = std::move(found->left);
      left.insert(left.end(), busy->begin(), busy->end());
    }
    if (!left.empty()) co_return fail(ErrorCode::kConflict, "item_busy", {}, left.front());
    for (const std::string& id : ids) done.push_back({ItemId::trusted(id), taken_[id]});
    co_return Result<void>();
  }

 private:
  struct Aside {
    std::string id, text;
    std::string_view name() const { return std::string_view(text).substr(0, kNameSize); }
    Added added() const { return set_aside_in(text).added(); }
  };
  struct Found {
    std::vector<Aside> aside;
    std::vector<std::string> left;  // of which there is more, or which changed in between
  };

  Task<Result<Found>> set_aside_of(const std::vector<std::string>& ids) {
    Pipeline look;
    for (const std::string& id : ids) {
      look.command(3 + Fields::kLetters.size()).arg("HMGET").arg(keys_.contributions(visitor_));
      for (const char letter : Fields::kLetters) look.arg(std::string(1, letter) + ":" + id);
      look.arg("p:" + id);
    }
    look.add("TIME");
    FRESHET_CO_TRY(found, co_await redis::run_all(redis_, look));
    const auto time = redis::parse_time(found->back());
    if (!time) co_return tl::unexpected(redis::malformed_reply("TIME"));
    const std::string name = fmt::to_string(time->count());
    Found out;
    std::vector<Aside> asked;
    Pipeline set;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const redis::Reply& had = (*found)[i];
      Fields fields;
      for (std::size_t j = 0; j < fields.values.size(); ++j) fields.values[j] = redis::string_at(had, j);
      const std::string_view before = redis::string_at(had, fields.values.size());
      if (!before.empty()) {
        out.aside.push_back({ids[i], std::string(before)});
        if (!fields.empty()) out.left.push_back(ids[i]);
      } else if (!fields.empty()) {
        asked.push_back({ids[i], set_aside(name, fields)});
        set.script(scripts::kAddedTake).key(keys_.contributions(visitor_)).arg(ids[i]);
        for (const std::string_view value : fields.values) set.arg(value);
        set.arg(asked.back().text);
      }
    }
    if (set.empty()) co_return out;
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, set));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if ((*replies)[i].integer().value_or(0) == 1)
        out.aside.push_back(std::move(asked[i]));
      else
        out.left.push_back(std::move(asked[i].id));
    }
    co_return out;
  }

  // Those whose article was changed between two steps.
  Task<Result<std::vector<std::string>>> take_off(const std::vector<Aside>& aside) {
    std::vector<std::string> busy;
    if (aside.empty()) co_return busy;
    Pipeline look;
    for (const Aside& each : aside) {
      look.command(2 + kFields.size()).arg("HMGET").arg(keys_.article(each.id));
      for (const std::string_view field : kFields) look.arg(field);
    }
    look.add("TIME");
    FRESHET_CO_TRY(found, co_await redis::run_all(redis_, look));
    const UnixSeconds read_at{seconds{redis::to_int(redis::string_at(found->back(), 0))}};
    Pipeline set;
    std::vector<bool> is_off(aside.size(), true);
    std::vector<std::size_t> asked;
    for (std::size_t i = 0; i < aside.size(); ++i) {
      if (append_less(set, aside[i], (*found)[i], read_at)) asked.push_back(i);
    }
    if (!set.empty()) {
      FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, set));
      for (std::size_t i = 0; i < asked.size(); ++i)
        is_off[asked[i]] = (*replies)[i].integer().value_or(0) == 1;
    }
    std::vector<const Aside*> off;
    for (std::size_t i = 0; i < aside.size(); ++i)
      is_off[i] ? off.push_back(&aside[i]) : busy.push_back(aside[i].id);
    FRESHET_CO_TRY(placed, co_await place_anew(off));
    for (const Aside* each : off) taken_[each->id] += each->added();
    co_return busy;
  }

  // The article without what was set aside, unless it is so already, or was forgotten: false.
  bool append_less(Pipeline& out, const Aside& aside, const redis::Reply& is, UnixSeconds now) const {
    const auto text = [&](Field field) { return redis::string_at(is, field); };
    const auto whole = [&](Field field) { return redis::to_int(text(field)); };
    const auto number = [&](Field field) { return redis::parse_or_zero<double>(text(field)); };
    if (text(kVersion).empty() || has_name(text(kPurges), aside.name())) return false;
    const Added less = aside.added();
    const auto lives = [&](Field since, seconds ttl) {
      return !text(since).empty() && unix_s(now) < whole(since) + ttl.count();
    };
    std::vector<std::string_view> gone;
    std::vector<std::pair<std::string_view, std::string>> fields;
    const std::string_view names = text(kPurges);
    fields.emplace_back("purges", names.substr(names.size() < kNameSize * kMostNames ? 0 : kNameSize));
    fields.back().second.append(aside.name());
    bool forget_visitors = false;
    if (!text(kPv).empty() && lives(kRenewed, settings_.engagement.counter_ttl)) {
      const std::int64_t pv = whole(kPv) - less.pv;
      forget_visitors = pv <= 0;
      if (forget_visitors)
        gone.insert(gone.end(), {"pv", "uv", "counted", "ms", "renewed", "uv_correction"});
      else
        fields.insert(fields.end(),
                      {{"pv", fmt::to_string(pv)},
                       {"ms", fmt::to_string(std::max<std::int64_t>(0, whole(kMs) - less.dwell_ms))},
                       {"uv_correction", fmt::to_string(whole(kCorrection) + less.uv)}});
    }
    if (!text(kViews).empty() && less.views > 0 && lives(kViewed, settings_.views.counter_ttl)) {
      const std::int64_t views = whole(kViews) - less.views;
      const double total = number(kTotal) - settings_.views.pv_weight * static_cast<double>(less.views) -
                           settings_.views.uv_weight * static_cast<double>(less.first_views);
      const double score = number(kScore) - less.views_score;
      if (views > 0 && total > 0 && score > 0)
        fields.insert(fields.end(), {{"total", fmt::to_string(total)},
                                     {"score", fmt::to_string(score)},
                                     {"views", fmt::to_string(views)}});
      else
        gone.insert(gone.end(), {"total", "score", "views", "viewed"});
    }
    out.script(scripts::kArticleSet).key(keys_.article(aside.id));
    if (forget_visitors) out.key(keys_.uv_hll(aside.id));
    out.arg(text(kVersion)).arg(gone.size());
    for (const std::string_view each : gone) out.arg(each);
    for (const auto& [field, value] : fields) out.arg(field).arg(value);
    return true;
  }

  // A HyperLogLog forgets nobody: `uv_correction` says by how many its estimate is too high. Who
  // comes again after a purge is in there, and does not count as a visitor again while it lives. An
  // item with no page view left loses it, and the others with it.
  Task<Result<void>> place_anew(const std::vector<const Aside*>& items) {
    if (items.empty()) co_return Result<void>();
    Pipeline look;
    for (const Aside* each : items) append_article(look, keys_, each->id);
    look.add("TIME");
    FRESHET_CO_TRY(articles, co_await redis::run_all(redis_, look));
    const UnixSeconds now{seconds{redis::to_int(redis::string_at(articles->back(), 0))}};
    Places places;
    for (std::size_t i = 0; i < items.size(); ++i)
      add_places(places, items[i]->id, article_of((*articles)[i], now, settings_), settings_,
                 items[i]->added().views > 0 ? Leaves::kAll : Leaves::kComputed);
    Pipeline write;
    append_places(write, places, now, settings_, keys_);
    write.barrier();
    for (const Aside* each : items) write.add("HDEL", keys_.contributions(visitor_), "p:" + each->id);
    FRESHET_CO_TRY(written, co_await redis::run_all(redis_, write));
    co_return Result<void>();
  }

  enum Field : std::uint8_t {
    kPv,
    kMs,
    kRenewed,
    kCorrection,
    kVersion,
    kViews,
    kTotal,
    kScore,
    kViewed,
    kPurges
  };
  static constexpr std::array<std::string_view, 10> kFields{
      "pv", "ms", "renewed", "uv_correction", "v", "views", "total", "score", "viewed", "purges"};

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  const std::string_view visitor_;
  std::map<std::string, Added> taken_;
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

Contributions::Contributions(redis::WriteQueue& deferred, const Settings& settings, redis::Keys keys,
                             NewName new_name, redis::RunAfter after)
    : deferred_(deferred),
      settings_(settings),
      keys_(std::move(keys)),
      new_name_(std::move(new_name)),
      timer_(std::move(after), kEvery, [this] { flush(); }) {}

void Contributions::add(const VisitorId& visitor, const Standing& standing, const ItemId& item,
                        const Added& added) {
  const bool nothing = added.pv == 0 && added.uv == 0 && added.dwell_ms == 0 && added.views == 0;
  if (settings_.limits.contribution_ttl.count() == 0 || visitor.empty() || nothing) return;
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
  for (const auto* each : visitors) out.key(keys_.contributions(each->first));
  out.arg(settings_.limits.contribution_ttl.count()).arg(new_name_().substr(0, 8));
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
  for (const auto& each : visitors_) calls[keys_.slot_or_zero(keys_.contributions(each.first))].push_back(&each);
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
  std::map<std::string_view, Added> aside;
  for (std::size_t i = 0; i + 1 < hash.size(); i += 2) {
    const std::string_view field = redis::string_at(hash, i), value = redis::string_at(hash, i + 1);
    if (field.size() <= 2 || field[1] != ':') continue;
    items[field.substr(2)].set(field[0], value);
    if (field[0] == 'p') aside[field.substr(2)] = set_aside_in(value).added();
  }
  std::vector<AddedTo> out;
  out.reserve(items.size());
  for (const auto& [id, fields] : items) {
    out.push_back({ItemId::trusted(std::string(id)), fields.added()});
    out.back().added += aside[id];
  }
  std::ranges::stable_sort(out, std::greater(),
                           [](const AddedTo& each) { return each.added.pv + each.added.views; });
  return out;
}

CameFrom read_came_from(const redis::Reply& hash) {
  CameFrom out;
  for (std::size_t i = 0; i + 1 < hash.size(); i += 2) {
    const std::string_view field = redis::string_at(hash, i), value = redis::string_at(hash, i + 1);
    if (field == kNetwork) out.network = value;
    if (field == kBeyond) out.beyond = redis::parse_or_zero<std::int64_t>(value);
  }
  return out;
}

Task<Result<std::vector<AddedTo>>> added_by(redis::Redis& redis, const redis::Keys& keys,
                                            std::string_view visitor) {
  Pipeline command;
  command.add("HGETALL", keys.contributions(visitor));
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
    FRESHET_CO_TRY(ok, co_await purge.run(ids, done));
  }
  Pipeline tell;
  tell.add("INCR", keys.epoch()).barrier().add("PUBLISH", keys.epoch(), "all");
  FRESHET_CO_TRY(told, co_await redis.run(tell));
  co_return done;
}

}  // namespace freshet::hot
