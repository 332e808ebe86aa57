// freshetctl push-recommendations CHANNEL: pushes recommendations into a channel's timelines
// (core/timeline/recommendation_pusher.h). Usually run by a timer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct PushRecommendationsOptions {
  std::string channel;
  std::vector<std::string> readers;  // readers to serve, with those of the file; both empty: active readers
  std::string readers_file;          // one id per line
  int limit = 0;                     // maximum of items per reader; 0: fill.items
  int every = 0;                     // interval in seconds, repeated until SIGTERM; 0: run once
  bool dry_run = false;              // print what would be pushed
  bool json = false;                 // print each run's totals as one JSON line
};

// Totals of a run. `readers` = served + skipped + nothing_new.
struct PushSummary {
  std::int64_t readers = 0;
  std::int64_t served = 0;       // got at least one item
  std::int64_t skipped = 0;      // still have unread items
  std::int64_t nothing_new = 0;  // have been shown every candidate
  std::int64_t pushed = 0;       // items
  std::int64_t duplicates = 0;   // were in the timeline already and keep their position
  bool interrupted = false;  // SIGTERM or SIGINT arrived between two readers; the next run serves the rest
};

// One run. SIGTERM and SIGINT end it between two readers if the caller has blocked them. Errors:
// Redis'; kInvalid "unknown_channel", "follow_channel", "bad_id"; kNotFound "no_file"; kInvalid
// "bad_secret".
Result<PushSummary> push_once(const PushRecommendationsOptions& options, const Target& target);
// Runs once or repeatedly and prints. Returns 0, or 1 if a single run was interrupted. With
// `every`, an error of a later run is printed and the next run retries.
Result<int> run_push_recommendations(const PushRecommendationsOptions& options, const Target& target);

}  // namespace freshet::ctl
