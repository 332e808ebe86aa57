#include "core/timeline/channel_fill.h"

#include <algorithm>

namespace freshet::timeline {
namespace {

// So often at most what was chosen may turn out to stand in the timeline already.
constexpr int kMostRounds = 8;

std::vector<ItemId> eligible_of(const recommend::Selection& selection) {
  std::vector<ItemId> out;
  for (const recommend::Choice& each : selection.choices()) {
    if (each.verdict == recommend::Verdict::kEligible)
      out.push_back(ItemId::trusted(std::string(selection.id(each))));
  }
  return out;
}

}  // namespace

ChannelFill::ChannelFill(recommend::Recommendations& recommendations, feed::FeedStore& seen,
                         WaterfallStore& timelines, WallClock clock)
    : recommendations_(recommendations), seen_(seen), timelines_(timelines), clock_(std::move(clock)) {}

Task<Result<std::vector<ItemId>>> ChannelFill::choose(const ReaderId& reader, std::size_t limit) {
  const recommend::RecommendRequest request{reader, 0, recommend::Exclude::kHard};
  FRESHET_CO_TRY(explained, co_await recommendations_.explain(request));
  FRESHET_CO_TRY(unwanted, co_await shown(reader, *(*explained)->selection));
  FRESHET_CO_TRY(best, co_await recommendations_.cut(**explained, limit, *unwanted));
  std::vector<ItemId> out;
  for (const recommend::Recommendation& each : *best) out.push_back(each.id);
  const bool all_known = std::all_of(best->begin(), best->end(),
                                     [](const recommend::Recommendation& each) { return each.card->known; });
  if (all_known) co_return out;
  // Recommended by ids alone, since none has an item: never put, or deleted.
  FRESHET_CO_TRY(pushable, co_await timelines_.pushable(out));
  std::vector<ItemId> allowed;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if ((*pushable)[i]) allowed.push_back(std::move(out[i]));
  }
  co_return allowed;
}

Task<Result<Pushed>> ChannelFill::fill(const std::string& channel, const ReaderId& reader,
                                       std::size_t limit) {
  Pushed sum;
  for (int round = 0; round < kMostRounds; ++round) {
    FRESHET_CO_TRY(chosen, co_await choose(reader, limit));
    if (chosen->empty()) break;
    Push push{channel, {chosen->rbegin(), chosen->rend()}, {}};  // the last becomes the newest
    push.readers.push_back(reader);
    FRESHET_CO_TRY(pushed, co_await timelines_.push(push));
    feed::Impressions shown;
    shown.shown = *chosen;
    shown.at = clock_();
    FRESHET_CO_TRY(recorded, co_await seen_.record(reader, std::move(shown)));
    sum.pushed += pushed->pushed;
    sum.duplicates += pushed->duplicates;
    if (pushed->pushed > 0) break;
  }
  co_return sum;
}

// Of what is eligible, what the filter takes for seen; and what the feed has handed out, which the
// filter may not know yet.
Task<Result<std::unordered_set<std::string>>> ChannelFill::shown(const ReaderId& reader,
                                                                 const recommend::Selection& selection) {
  feed::FeedRequest who;
  who.reader = reader;
  FRESHET_CO_TRY(opening, co_await seen_.open(who, false));
  const std::vector<ItemId> eligible = eligible_of(selection);
  FRESHET_CO_TRY(seen, co_await seen_.seen(reader, opening->seen, eligible));
  std::unordered_set<std::string> out;
  for (const ItemId& each : opening->handed_out) out.insert(each.str());
  for (std::size_t i = 0; i < eligible.size(); ++i) {
    if ((*seen)[i]) out.insert(eligible[i].str());
  }
  co_return out;
}

}  // namespace freshet::timeline
