#include "core/timeline/recommendation_pusher.h"

#include <algorithm>

namespace freshet::timeline {
namespace {

// Rounds in which all selected items may turn out to be in the timeline already.
constexpr int kMaxRounds = 8;

std::vector<ItemId> eligible_items(const recommend::Selection& selection) {
  std::vector<ItemId> out;
  for (const recommend::SelectionCandidate& each : selection.candidates()) {
    if (each.eligibility == recommend::Eligibility::kEligible)
      out.push_back(ItemId::trusted(std::string(selection.id(each))));
  }
  return out;
}

}  // namespace

RecommendationPusher::RecommendationPusher(recommend::Recommendations& recommendations,
                                           feed::FeedStore& feed_store, TimelineStore& timelines,
                                           WallClock clock)
    : recommendations_(recommendations),
      feed_store_(feed_store),
      timelines_(timelines),
      clock_(std::move(clock)) {}

Task<Result<std::vector<ItemId>>> RecommendationPusher::select(const ReaderId& reader, std::size_t limit) {
  const recommend::RecommendRequest request{reader, 0, recommend::ExclusionMode::kHard};
  FRESHET_CO_TRY(trace, co_await recommendations_.explain(request));
  FRESHET_CO_TRY(excluded, co_await seen_or_delivered(reader, *(*trace)->selection));
  FRESHET_CO_TRY(best, co_await recommendations_.select_page(**trace, limit, *excluded));
  std::vector<ItemId> out;
  for (const recommend::Recommendation& each : *best) out.push_back(each.id);
  const bool all_known = std::all_of(best->begin(), best->end(),
                                     [](const recommend::Recommendation& each) { return each.card->known; });
  if (all_known) co_return out;
  // If no recommended item is known (never put, or deleted), the recommendations are bare ids.
  FRESHET_CO_TRY(pushable, co_await timelines_.check_pushable(out));
  std::vector<ItemId> allowed;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if ((*pushable)[i]) allowed.push_back(std::move(out[i]));
  }
  co_return allowed;
}

Task<Result<PushResult>> RecommendationPusher::push(const std::string& channel, const ReaderId& reader,
                                                    std::size_t limit) {
  PushResult total;
  for (int round = 0; round < kMaxRounds; ++round) {
    FRESHET_CO_TRY(selected, co_await select(reader, limit));
    if (selected->empty()) break;
    // The last becomes the newest.
    PushRequest push_request{channel, {selected->rbegin(), selected->rend()}, {}};
    push_request.readers.push_back(reader);
    FRESHET_CO_TRY(pushed, co_await timelines_.push(push_request));
    feed::Impressions impressions;
    impressions.items = *selected;
    impressions.at = clock_();
    FRESHET_CO_TRY(recorded, co_await feed_store_.record(reader, std::move(impressions)));
    total.pushed += pushed->pushed;
    total.duplicates += pushed->duplicates;
    if (pushed->pushed > 0) break;
  }
  co_return total;
}

// Eligible items that the filter reports as seen, plus items recently delivered by the feed, which
// the filter may not have yet.
Task<Result<std::unordered_set<std::string>>> RecommendationPusher::seen_or_delivered(
    const ReaderId& reader, const recommend::Selection& selection) {
  feed::FeedRequest request;
  request.reader = reader;
  FRESHET_CO_TRY(state, co_await feed_store_.load_state(request, false));
  const std::vector<ItemId> eligible = eligible_items(selection);
  FRESHET_CO_TRY(seen, co_await feed_store_.check_seen(reader, state->seen_view, eligible));
  std::unordered_set<std::string> out;
  for (const ItemId& each : state->delivered_items) out.insert(each.str());
  for (std::size_t i = 0; i < eligible.size(); ++i) {
    if ((*seen)[i]) out.insert(eligible[i].str());
  }
  co_return out;
}

}  // namespace freshet::timeline
