// The last days' visits of readers who came back, from the recorder's database. Input of the feed's
// tuner. Blocking.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/database/sqlite.h"
#include "core/tuning/feed_scores.h"

namespace freshet::tuning {

// Bounds of memory and time. A visit costs a search for each pair of scale and interest weight.
struct FeedHistoryLimits {
  int days = 14;                         // complete days (UTC) before `now`
  std::size_t visits_per_day = 100;      // evenly sampled
  std::size_t items = 40'000;            // the newest
  std::int64_t events_per_reader = 500;  // the newest
};

class FeedHistoryReader {
 public:
  // Errors: those of Database (database.h); the file must exist.
  static Result<FeedHistoryReader> open(const std::string& database);

  // Readers who interacted with an item on one of the days, and with another one before that day.
  // If there are more items than the limit, days on which fewer than a quarter of them were
  // published are left out. Reads the table of interactions once.
  Result<FeedHistory> read(UnixSeconds now, const InteractionSettings& weights,
                           const FeedHistoryLimits& limits = {});
  // FeedSource::item for this history.
  Result<std::optional<items::Item>> item(std::uint32_t index);

 private:
  explicit FeedHistoryReader(database::SqliteConnection db) : db_(std::move(db)) {}
  Result<void> sample_visits(UnixSeconds begin, UnixSeconds end, std::size_t per_day, FeedHistory& out);
  Result<void> read_items(UnixSeconds end, std::size_t limit, FeedHistory& out);
  Result<void> read_events(UnixSeconds end, const InteractionSettings& weights, std::int64_t limit,
                           FeedHistory& out);

  database::SqliteConnection db_;
  std::vector<std::int64_t> item_keys_, reader_keys_;  // of FeedHistory::items and readers
  std::unordered_map<std::string, std::uint32_t> item_numbers_;
};

}  // namespace freshet::tuning
