// Measures how well the feed would have predicted what readers read on past days, with the search
// index, recall, and the order by trend that the service uses.
//
// A case is a reader who came back on a day. The list is what a refresh at its midnight (UTC) would
// have put on the reader's first page: items published by then that the reader had not touched,
// with the newest 20 items of the reader as interests. It is compared with the items among these
// that the reader touched on that day (binary): NDCG@20. Readers without such an item are no case.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/items/ports.h"

namespace freshet::tuning {

// The settings that are compared.
struct FeedCandidate {
  seconds decay_scale = RecallSettings().decay_scale;
  double interest_weight = RecallSettings().interest_weight;
  double trend_weight = RecallSettings().trend_weight;
  bool operator==(const FeedCandidate&) const = default;
  std::string name() const;  // "scale 7 d, interests 0.02, trend 0.05"
};

struct FeedEvent {
  UnixSeconds at;
  std::uint32_t item = 0;   // index into FeedHistory::items
  bool is_interest = true;  // false: its kind has no weight
};
struct FeedVisit {
  UnixSeconds day;  // midnight
  std::uint32_t reader = 0;
};
struct FeedHistory {
  struct Item {
    ItemId id;
    UnixSeconds published;
  };
  std::vector<Item> items;                      // oldest first
  std::vector<std::vector<FeedEvent>> readers;  // oldest first
  std::vector<FeedVisit> visits;                // ascending by day
};

struct FeedSource {
  // An item with its text, by index; nullopt: it is gone.
  std::function<Result<std::optional<items::Item>>(std::uint32_t)> item;
  // The first items of the trending list at a moment.
  std::function<std::vector<ItemId>(UnixSeconds)> hottest;
};

struct FeedScores {
  std::vector<FeedCandidate> candidates;
  std::vector<UnixSeconds> days;          // of the cases, ascending
  std::vector<std::vector<double>> ndcg;  // by candidate and case
};

// `settings`: of the service, for everything that is not compared; searches have no time limit.
// Builds an index in `folder`, which must be empty, and adds the items in order of time. Takes one
// search for each case and each different pair of scale and interest weight. Errors: those of
// `source` and of SearchIndex.
Result<FeedScores> score_feed(const FeedHistory& history, const FeedSource& source,
                              std::vector<FeedCandidate> candidates, const Settings& settings,
                              const std::filesystem::path& folder);

}  // namespace freshet::tuning
