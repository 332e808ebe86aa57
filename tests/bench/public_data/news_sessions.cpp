// Quality of `similar` on public data: how well it predicts a session's next click.
//
// Predicted are the clicks of days 4.5 to 7 that are not the first of their session, from the
// session's click before. Clicks on an article that the session has seen are not predicted, and
// articles that it has seen are left out of the list. All other articles that were clicked before
// the moment are candidates.
//
// Metrics: HR@20, the share of clicks that are among the best 20, and MRR@20, the mean of 1/position
// (0 beyond 20). Of articles with equal scores, the one with the smaller number comes first.
//
// Trend: views up to the second before the click, each halved with every half-life since.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/hot/trending.h"
#include "tests/bench/public_data/clicks.h"
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

// The most read articles at a moment, as a worker knows them.
class Trend {
 public:
  Trend(std::size_t articles, seconds half_life)
      : half_life_(half_life), sums_(articles, -std::numeric_limits<double>::infinity()) {}
  void add(const Click& click) {
    double& sum = sums_[click.item];
    if (std::isinf(sum)) known_.push_back(click.item);
    sum = hot::add_log2(sum, hot::half_lives(seconds(click.at), half_life_));
  }
  // The best `count` articles, best first.
  const std::vector<std::uint32_t>& top(std::size_t count) {
    const auto is_better = [this](std::uint32_t a, std::uint32_t b) {
      return sums_[a] != sums_[b] ? sums_[a] > sums_[b] : a < b;
    };
    top_.resize(std::min(count, known_.size()));
    std::partial_sort_copy(known_.begin(), known_.end(), top_.begin(), top_.end(), is_better);
    return top_;
  }

 private:
  const seconds half_life_;
  std::vector<double> sums_;  // log2
  std::vector<std::uint32_t> known_, top_;
};

}  // namespace

Result<EvaluationReport> evaluate_news_sessions(const std::string& directory, const Progress& progress) {
  FRESHET_TRY(clicks, read_clicks(std::filesystem::path(directory) / "clicks.csv"));
  EvaluationReport report("news-clicks: the next click in a session, days 4.5 to 7, HR@20 and MRR@20");
  const std::int64_t start = clicks->front().at / kDay * kDay;
  const std::int64_t from = start + 9 * kDay / 2, until = start + 7 * kDay;
  std::uint32_t articles = 0;
  for (const Click& each : *clicks) articles = std::max(articles, each.item + 1);
  struct Measured {
    const char* name;
    Trend trend;
    HitRate rate = {};
  };
  std::vector<Measured> trends;
  trends.push_back({"15 min", Trend(articles, seconds(900))});
  trends.push_back({"1 h", Trend(articles, seconds(3600))});
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> sessions;  // articles, in order
  std::vector<const Click*> pending;                                       // clicks of this second
  for (const Click& click : *clicks) {
    if (click.at >= until) break;
    if (!pending.empty() && pending.front()->at != click.at) {
      for (const Click* each : pending) {
        for (Measured& trend : trends) trend.trend.add(*each);
      }
      pending.clear();
    }
    std::vector<std::uint32_t>& session = sessions[click.session];
    const bool is_new = std::ranges::find(session, click.item) == session.end();
    if (click.at >= from && is_new && !session.empty()) {
      for (Measured& trend : trends) {
        std::size_t position = 0;
        for (const std::uint32_t each : trend.trend.top(kListed + session.size())) {
          if (each == click.item) break;
          if (std::ranges::find(session, each) == session.end()) ++position;
        }
        trend.rate.add(position);
      }
    }
    pending.push_back(&click);
    if (is_new) session.push_back(click.item);
    if (const auto done = static_cast<std::size_t>(&click - clicks->data()); done % 4096 == 0)
      progress("predicting clicks", static_cast<double>(done) / static_cast<double>(clicks->size()));
  }
  for (const Measured& each : trends) {
    report.add({"", fmt::format("trend, half-life {}: HR@20", each.name), each.rate.hit_rate(), "", {}, {}});
    report.add(
        {"", fmt::format("trend, half-life {}: MRR@20", each.name), each.rate.reciprocal_rank(), "", {}, {}});
  }
  report.note(fmt::format("{} clicks predicted", trends.front().rate.predicted()));
  return report;
}

}  // namespace freshet::bench
