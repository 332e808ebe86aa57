// Quality of `similar` on public data: how well it predicts a session's next click.
//
// Predicted are the clicks of days 4.5 to 7 that are not the first of their session, from the
// session's click before. Clicks on an article that the session has seen are not predicted, and
// articles that it has seen are left out of the list. All other articles that were clicked before
// the moment are candidates.
//
// Metrics: HR@20, the share of clicks that are among the best 20, and MRR@20, the mean of
// 1/position (0 beyond 20). Of articles with equal scores, the one with the smaller number comes
// first.
//
// Trend: views up to the second before the click, each halved with every half-life since; the best
// 200, as a worker has them.
// similar: core/recommend/similar_mix.h without content (the clicks have no text), with pairs as
// the service counts and publishes them. A pair is counted if the reader's history (ten articles)
// has another article as its newest, of the last half hour, and the article not in the last day.
// Every ten seconds the pairs of articles with new ones are published: those counted three times
// in the last three days, the best 20.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/hot/trending.h"
#include "core/items/covisits.h"
#include "core/recommend/similar_mix.h"
#include "tests/bench/public_data/reads.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::size_t kListed = 20;

class HitRate {
 public:
  // position: from 0; nothing is counted beyond the list.
  void add(std::size_t position) {
    ++predicted_;
    if (position >= kListed) return;
    ++hits_;
    reciprocal_ += 1 / static_cast<double>(position + 1);
  }
  std::int64_t predicted() const { return predicted_; }
  double hit_rate() const { return static_cast<double>(hits_) / static_cast<double>(predicted_); }
  double reciprocal_rank() const { return reciprocal_ / static_cast<double>(predicted_); }

 private:
  std::int64_t predicted_ = 0, hits_ = 0;
  double reciprocal_ = 0;
};

using recommend::SimilarItem;

// Ids by the articles' numbers.
std::vector<ItemId> make_ids(std::size_t count) {
  std::vector<ItemId> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(ItemId::trusted(std::to_string(i)));
  return out;
}

// The most read articles, as a worker knows them.
class Trend {
 public:
  Trend(const std::vector<ItemId>& ids, seconds half_life)
      : ids_(ids), half_life_(half_life), sums_(ids.size(), -std::numeric_limits<double>::infinity()) {}
  void add(const Read& click) {
    double& sum = sums_[click.item];
    if (std::isinf(sum)) known_.push_back(click.item);
    sum = hot::add_log2(sum, hot::half_lives(seconds(click.at), half_life_));
    best_.reset();
  }
  // Best first, with decayed views.
  recommend::SharedItems best(std::int64_t now) {
    if (best_) return best_;
    const auto is_better = [this](std::uint32_t a, std::uint32_t b) {
      return sums_[a] != sums_[b] ? sums_[a] > sums_[b] : a < b;
    };
    top_.resize(std::min(kTrendItems, known_.size()));
    std::partial_sort_copy(known_.begin(), known_.end(), top_.begin(), top_.end(), is_better);
    std::vector<SimilarItem> best;
    for (const std::uint32_t each : top_)
      best.push_back({ids_[each], std::exp2(sums_[each] - hot::half_lives(seconds(now), half_life_)),
                      SimilarItem::Source::kTrend});
    return best_ = std::make_shared<const std::vector<SimilarItem>>(std::move(best));
  }

 private:
  static constexpr std::size_t kTrendItems = 200;  // recommend.trend_items
  const std::vector<ItemId>& ids_;
  const seconds half_life_;
  std::vector<double> sums_;  // log2
  std::vector<std::uint32_t> known_, top_;
  recommend::SharedItems best_;  // null: changed
};

// The pairs as core/readers, core/database and core/recorder count and publish them.
class Covisits {
 public:
  explicit Covisits(const std::vector<ItemId>& ids)
      : ids_(ids), pairs_(ids.size()), frequent_(ids.size()), published_(ids.size()) {}

  void add(const Read& click) {
    std::vector<Viewed>& history = histories_[click.reader];
    const auto known = std::ranges::find(history, click.item, &Viewed::item);
    const bool is_known = known != history.end(), seen = is_known && known->at > click.at - kDay;
    if (!history.empty() && history.back().item != click.item && !seen &&
        history.back().at >= click.at - 1800) {
      Pair& pair = pairs_[history.back().item][click.item];
      pair.recent = hot::add_log2(pair.recent, hot::half_lives(seconds(click.at), items::kCovisitHalfLife));
      ++pair.days[click.at / kDay];
      if (++pair.count == kMinReads) frequent_[history.back().item].emplace_back(click.item, &pair);
      changed_.insert(history.back().item);
    }
    if (is_known) history.erase(known);
    history.push_back({click.item, click.at});
    if (history.size() > kHistory) history.erase(history.begin());
  }

  // Publishes what has changed, if it is time.
  void publish(std::int64_t now) {
    if (now < due_) return;
    due_ = now + 10;
    for (const std::uint32_t item : changed_) {
      std::vector<items::Covisit>& out = published_[item];
      out.clear();
      for (const auto& [next, pair] : frequent_[item]) {
        std::int64_t count = 0;
        for (const auto& [day, times] : pair->days) count += day >= now / kDay - 3 ? times : 0;
        if (count >= kMinReads) out.push_back({ids_[next], pair->recent});
      }
      std::ranges::sort(out, std::ranges::greater(), &items::Covisit::recent);
      if (out.size() > items::kListedCovisits)
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(items::kListedCovisits), out.end());
    }
    changed_.clear();
  }

  std::vector<SimilarItem> after(std::uint32_t item, std::int64_t now) const {
    std::vector<SimilarItem> out;
    for (const items::Covisit& each : published_[item])
      out.push_back({each.next, items::covisit_weight(each.recent, UnixSeconds(seconds(now)))});
    return out;
  }

 private:
  static constexpr std::size_t kHistory = 10;  // history.size
  static constexpr std::int64_t kMinReads = 3;
  struct Viewed {
    std::uint32_t item = 0;
    std::int64_t at = 0;
  };
  struct Pair {
    double recent = -std::numeric_limits<double>::infinity();
    std::int64_t count = 0;
    std::map<std::int64_t, std::int64_t> days;
  };
  const std::vector<ItemId>& ids_;
  std::unordered_map<std::uint32_t, std::vector<Viewed>> histories_;  // newest last
  std::vector<std::unordered_map<std::uint32_t, Pair>> pairs_;
  std::vector<std::vector<std::pair<std::uint32_t, const Pair*>>> frequent_;  // of kMinReads or more
  std::vector<std::vector<items::Covisit>> published_;
  std::unordered_set<std::uint32_t> changed_;
  std::int64_t due_ = 0;
};

std::size_t position_of(const std::vector<SimilarItem>& list, const ItemId& item,
                        const std::vector<ItemId>& left_out) {
  std::size_t position = 0;
  for (const SimilarItem& each : list) {
    if (each.item == item) return position;
    if (std::ranges::find(left_out, each.item) == left_out.end()) ++position;
  }
  return kListed;
}

}  // namespace

Result<EvaluationReport> evaluate_news_sessions(const std::string& directory, const Progress& progress) {
  FRESHET_TRY(clicks, read_clicks(std::filesystem::path(directory) / "clicks.csv"));
  EvaluationReport report("news-clicks: the next click in a session, days 4.5 to 7, HR@20 and MRR@20");
  const std::int64_t start = clicks->reads.front().at / kDay * kDay;
  const std::int64_t from = start + 9 * kDay / 2, until = start + 7 * kDay;
  std::uint32_t articles = 0;
  for (const Read& each : clicks->reads) articles = std::max(articles, each.item + 1);
  const std::vector<ItemId> ids = make_ids(articles);
  struct Measured {
    const char* name;
    Trend trend;
    HitRate by_trend = {}, similar = {};
  };
  std::vector<Measured> measured;
  measured.push_back({"15 min", Trend(ids, seconds(900))});
  measured.push_back({"1 h", Trend(ids, seconds(3600))});
  Covisits covisits(ids);
  std::unordered_map<std::uint32_t, std::vector<ItemId>> sessions;  // articles, in order
  std::vector<const Read*> pending;                                 // clicks of this second
  for (const Read& click : clicks->reads) {
    if (click.at >= until) break;
    if (!pending.empty() && pending.front()->at != click.at) {
      for (const Read* each : pending) {
        for (Measured& trend : measured) trend.trend.add(*each);
        covisits.add(*each);
      }
      pending.clear();
      covisits.publish(click.at);
    }
    std::vector<ItemId>& session = sessions[click.session];
    const ItemId& item = ids[click.item];
    const auto seen = std::ranges::find(session, item);
    if (click.at >= from && seen == session.end() && !session.empty()) {
      const auto before = static_cast<std::uint32_t>(std::stoul(session.back().str()));
      for (Measured& each : measured) {
        const recommend::SharedItems trend = each.trend.best(click.at);
        each.by_trend.add(position_of(*trend, item, session));
        const recommend::SimilarSources sources{covisits.after(before, click.at), {}, trend};
        each.similar.add(
            position_of(mix_similar(sources, session.back(), kListed + session.size()), item, session));
      }
    }
    pending.push_back(&click);
    if (seen != session.end()) session.erase(seen);
    session.push_back(item);
    if (const auto done = static_cast<std::size_t>(&click - clicks->reads.data()); done % 4096 == 0)
      progress("predicting clicks", static_cast<double>(done) / static_cast<double>(clicks->reads.size()));
  }
  for (const Measured& each : measured) {
    const auto add = [&](const char* what, const HitRate& rate, bool has_goal) {
      const auto goal = [&](double value) { return has_goal ? std::optional(value) : std::nullopt; };
      report.add({has_goal ? "similar" : "",
                  fmt::format("{}, half-life of the trend {}: HR@20", what, each.name), rate.hit_rate(), "",
                  goal(.65), goal(.69)});
      report.add({has_goal ? "similar" : "",
                  fmt::format("{}, half-life of the trend {}: MRR@20", what, each.name),
                  rate.reciprocal_rank(), "", goal(.255), goal(.275)});
    };
    add("trend alone", each.by_trend, false);
    add("similar", each.similar, true);
  }
  report.note(fmt::format("{} clicks predicted", measured.front().similar.predicted()));
  return report;
}

}  // namespace freshet::bench
