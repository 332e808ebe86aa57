#include "scripts/ctl/commands/tune_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <numeric>
#include <utility>

#include "core/tuning/feed_history.h"
#include "core/tuning/scratch_folder.h"
#include "scripts/ctl/commands/print.h"

namespace freshet::ctl {
namespace {

using tuning::Estimate;
using tuning::FeedCandidate;
using tuning::FeedDecision;
using tuning::FeedScores;
using tuning::FixedFeedValues;

constexpr std::size_t kTrendingItems = 100;  // as many as the feed reads
constexpr std::size_t kPrintedFeeds = 10;

std::vector<std::size_t> feeds_by_quality(const FeedScores& scores) {
  std::vector<double> means;
  for (std::size_t i = 0; i < scores.candidates.size(); ++i) means.push_back(quality(scores, i).mean);
  std::vector<std::size_t> order(means.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return means[i]; });
  return order;
}

// The days of the visits, ascending.
std::vector<UnixSeconds> days_of(const tuning::FeedHistory& history) {
  std::vector<UnixSeconds> out;
  for (const auto& visit : history.visits) {
    if (out.empty() || out.back() != visit.day) out.push_back(visit.day);
  }
  return out;
}

Result<FeedDecision> measure_feed(const Settings& settings, const FixedFeedValues& fixed,
                                  const tuning::ViewHistory& views, const tuning::HotValues& hot,
                                  UnixSeconds now) {
  FRESHET_TRY(reader, tuning::FeedHistoryReader::open(settings.recorder.database));
  FRESHET_TRY(history, reader->read(now, settings.interactions));
  const std::vector<UnixSeconds> days = days_of(*history);
  const FeedCandidate current = feed_values(settings);
  if (history->visits.size() < tuning::kMinFeedCases || days.size() < tuning::kMinFeedDays)
    return tuning::keep_feed(current, history->visits.size(), days.size());
  const tuning::HotCandidate trending{tuning::HotFormula::kTrending,
                                      static_cast<double>(hot.trending_half_life.count())};
  const auto lists = lists_at(views, trending, hot, days, kTrendingItems);
  const tuning::FeedSource source{
      .item = [&](std::uint32_t item) { return reader->item(item); },
      .hottest =
          [&](UnixSeconds day) {
            std::vector<ItemId> out;
            const auto at = static_cast<std::size_t>(std::ranges::lower_bound(days, day) - days.begin());
            for (const auto& each : lists[at]) out.push_back(ItemId::trusted(views.ids[each.item]));
            return out;
          }};
  const tuning::ScratchFolder folder(std::filesystem::temp_directory_path());
  FRESHET_TRY(scores, score_feed(*history, source, feed_candidates(current, fixed), settings, folder.path()));
  return tuning::tune_feed(*std::move(scores));
}

}  // namespace

FeedCandidate feed_values(const Settings& settings) {
  return {settings.recall.decay_scale, settings.recall.interest_weight, settings.recall.trend_weight};
}

FixedFeedValues fixed_feed_values(const ConfigSources& sources, const std::string& tune_file) {
  const auto is_set = [&](std::string_view name) {
    const auto source = sources.find(name);
    return source != sources.end() && source->second != tune_file;
  };
  return {is_set("recall.decay_scale"), is_set("recall.interest_weight"), is_set("recall.trend_weight")};
}

FeedDecision decide_feed(const Settings& settings, const FixedFeedValues& fixed,
                         const tuning::ViewHistory& history, const tuning::HotValues& hot, UnixSeconds now) {
  const auto failed = [&](const std::string& why) {
    return FeedDecision{.values = feed_values(settings),
                        .reason = "The feed: it could not be measured, so nothing changes: " + why};
  };
  try {
    auto decision = measure_feed(settings, fixed, history, hot, now);
    return decision ? *std::move(decision)
                    : failed(fmt::format("{} {}", decision.error().reason, decision.error().detail));
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

std::string tuned_feed_lines(const FeedCandidate& values, const FixedFeedValues& fixed) {
  const FeedCandidate defaults;
  std::string out;
  if (values.decay_scale != defaults.decay_scale && !fixed.decay_scale)
    out += fmt::format("recall.decay_scale = {}\n", values.decay_scale.count());
  if (values.interest_weight != defaults.interest_weight && !fixed.interest_weight)
    out += fmt::format("recall.interest_weight = {}\n", values.interest_weight);
  if (values.trend_weight != defaults.trend_weight && !fixed.trend_weight)
    out += fmt::format("recall.trend_weight = {}\n", values.trend_weight);
  return out;
}

void print_feeds(const FeedDecision& decision) {
  const FeedScores& scores = decision.scores;
  if (scores.days.empty()) return;
  ctl::print("\nThe feed: {} visits\n  {:<44}{:>11}  {:<17}\n", scores.days.size(), "", "next day",
             "95 % interval");
  std::size_t position = 0;
  for (const std::size_t i : feeds_by_quality(scores)) {
    const bool is_chosen = scores.candidates[i] == decision.values;
    if (++position > kPrintedFeeds && i != 0 && !is_chosen) continue;
    const Estimate estimate = quality(scores, i);
    const std::string interval =
        std::isnan(estimate.low) ? "" : fmt::format("{:.3f} to {:.3f}", estimate.low, estimate.high);
    ctl::print("  {:<44}{:>11.3f}  {:<17}{}\n", scores.candidates[i].name(), estimate.mean, interval,
               i == 0      ? is_chosen ? "served now, kept" : "served now"
               : is_chosen ? "chosen"
                           : "");
  }
}

void write_feeds(json::Writer& out, const FeedScores& scores) {
  out.begin_array();
  for (const std::size_t i : scores.days.empty() ? std::vector<std::size_t>() : feeds_by_quality(scores)) {
    const Estimate estimate = quality(scores, i);
    out.begin_object().key("name").string(scores.candidates[i].name()).key("next_day").number(estimate.mean);
    for (const auto& [name, value] : {std::pair("low", estimate.low), std::pair("high", estimate.high)}) {
      out.key(name);
      std::isnan(value) ? out.null() : out.number(value);
    }
    out.end_object();
  }
  out.end_array();
}

}  // namespace freshet::ctl
