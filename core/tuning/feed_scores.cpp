#include "core/tuning/feed_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/feed/recall.h"
#include "core/feed/smart_feed.h"
#include "core/search/search_index.h"

namespace freshet::tuning {
namespace {

constexpr std::size_t kPageItems = 20, kMaxFeedInterests = 20;
constexpr seconds kVisitLength{86400};

class FeedReplay {
 public:
  FeedReplay(const FeedHistory& history, const FeedSource& source, FeedScores& scores,
             const Settings& settings, const std::filesystem::path& folder)
      : history_(history), source_(source), scores_(scores), settings_(settings) {
    settings_.search.index = (folder / "index").string();
    settings_.search.shards.clear();
    settings_.recall.budget = milliseconds(0);
    scores_.ndcg.resize(scores_.candidates.size());
    for (std::size_t i = 0; i < scores_.candidates.size(); ++i) {
      const FeedCandidate& each = scores_.candidates[i];
      searches_[{each.decay_scale, each.interest_weight}].push_back(i);
    }
    for (std::uint32_t i = 0; i < history_.items.size(); ++i) numbers_.emplace(history_.items[i].id, i);
  }

  Result<void> run() {
    FRESHET_TRY(index, search::SearchIndex::open(settings_.search));
    for (auto& [key, candidates] : searches_) {
      if (recalls_.contains(key.first)) continue;
      settings_.recall.decay_scale = key.first;
      recalls_.emplace(key.first, std::make_unique<feed::BlockingRecall>(settings_));
    }
    std::uint32_t indexed = 0;
    for (auto visit = history_.visits.begin(); visit != history_.visits.end();) {
      const UnixSeconds day = visit->day;
      for (; indexed < history_.items.size() && history_.items[indexed].published < day; ++indexed) {
        FRESHET_TRY(item, source_.item(indexed));
        if (!*item || (*item)->id != history_.items[indexed].id) continue;
        if (auto ok = (*index)->put(**item); !ok) return ok;
      }
      if (auto ok = (*index)->commit(); !ok) return ok;
      hot_ = source_.hottest(day);
      for (; visit != history_.visits.end() && visit->day == day; ++visit) {
        if (auto ok = add_case(*visit); !ok) return ok;
      }
    }
    return {};
  }

 private:
  using SearchKey = std::pair<seconds, double>;  // scale and interest weight

  Result<void> add_case(const FeedVisit& visit) {
    touched_.clear();
    relevant_.clear();
    std::vector<std::uint32_t> interests;  // oldest first
    for (const FeedEvent& event : history_.readers[visit.reader]) {
      if (event.at >= visit.day + kVisitLength) break;
      if (event.at < visit.day) {
        touched_.insert(event.item);
        if (!event.is_interest) continue;
        std::erase(interests, event.item);
        interests.push_back(event.item);
      } else if (!touched_.contains(event.item) && history_.items[event.item].published < visit.day) {
        relevant_.insert(event.item);
      }
    }
    if (touched_.empty() || relevant_.empty()) return {};
    feed::RecallQuery query{.text = {}, .now = visit.day};
    for (auto each = interests.rbegin();
         each != interests.rend() && query.interests.size() < kMaxFeedInterests; ++each)
      query.interests.push_back({history_.items[*each].id});
    query.interests = feed::weigh_interests(query.interests);
    query.size = static_cast<std::size_t>(settings_.recall.size);
    for (const auto& [key, candidates] : searches_) {
      query.interest_weight = key.second;
      FRESHET_TRY(found, recalls_.at(key.first)->search(query));
      for (const std::size_t each : candidates) {
        auto list = found->candidates;
        feed::order_by_trend(list, hot_, scores_.candidates[each].trend_weight);
        scores_.ndcg[each].push_back(ndcg_of(list));
      }
    }
    scores_.days.push_back(visit.day);
    return {};
  }

  // Counts the first items that the reader has not touched.
  double ndcg_of(const std::vector<feed::Candidate>& list) const {
    double gain = 0, ideal = 0;
    std::size_t position = 0;
    for (const feed::Candidate& each : list) {
      const std::uint32_t item = numbers_.at(each.item);
      if (touched_.contains(item)) continue;
      if (relevant_.contains(item)) gain += 1 / std::log2(static_cast<double>(position) + 2);
      if (++position == kPageItems) break;
    }
    for (std::size_t i = 0; i < std::min(relevant_.size(), kPageItems); ++i)
      ideal += 1 / std::log2(static_cast<double>(i) + 2);
    return gain / ideal;
  }

  const FeedHistory& history_;
  const FeedSource& source_;
  FeedScores& scores_;
  Settings settings_;
  std::map<SearchKey, std::vector<std::size_t>> searches_;  // candidates by what they search for
  std::map<seconds, std::unique_ptr<feed::BlockingRecall>> recalls_;
  std::unordered_map<ItemId, std::uint32_t> numbers_;
  std::vector<ItemId> hot_;
  std::unordered_set<std::uint32_t> touched_, relevant_;  // of one case
};

}  // namespace

std::string FeedCandidate::name() const {
  const auto scale = decay_scale.count() % 86400 == 0 ? fmt::format("{} d", decay_scale.count() / 86400)
                                                      : fmt::format("{} s", decay_scale.count());
  return fmt::format("scale {}, interests {}, trend {}", scale, interest_weight, trend_weight);
}

Result<FeedScores> score_feed(const FeedHistory& history, const FeedSource& source,
                              std::vector<FeedCandidate> candidates, const Settings& settings,
                              const std::filesystem::path& folder) {
  FeedScores scores{std::move(candidates), {}, {}};
  if (auto ok = FeedReplay(history, source, scores, settings, folder).run(); !ok)
    return tl::unexpected(ok.error());
  return scores;
}

}  // namespace freshet::tuning
