// freshetctl push-recommendations CHANNEL: pushes recommendations into a channel's timelines, for the readers who
// come for them (core/timeline/recommendation_pusher.h). A timer runs it.
#pragma once

#include <string>
#include <vector>

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct PushRecommendationsOptions {
  std::string channel;
  std::vector<std::string> readers;  // these, and those of the file, instead of who is active
  std::string readers_file;          // an id a line
  int limit = 0;                     // items to each at most; 0: fill.items
  int every = 0;                     // again after so many seconds, until SIGTERM; 0: once
  bool dry_run = false;              // print what would be pushed
  bool json = false;                 // a run's sums as an object a line
};

// Whom a run was for. `readers` = served + skipped + nothing_new.
struct PushSummary {
  std::int64_t readers = 0;
  std::int64_t served = 0;       // who got something
  std::int64_t skipped = 0;      // who have not seen what they got before
  std::int64_t nothing_new = 0;  // who have been shown all there is
  std::int64_t pushed = 0;       // items
  std::int64_t duplicates = 0;   // that stood in the timeline already, and kept their place
  bool interrupted = false;      // by SIGTERM or SIGINT, between two readers; the rest are for the next run
};

// One run. SIGTERM and SIGINT end it between two readers if the caller has them blocked. Errors:
// Redis'; kInvalid "unknown_channel", "follow_channel", "bad_id"; kNotFound "no_file"; kInvalid
// "bad_secret".
Result<PushSummary> push_once(const PushRecommendationsOptions& options, const Target& target);
// Runs, once or for ever, and prints. 0, or 1 when a single run was interrupted. With `every` an
// error of a later run is printed, and the next one tries again.
Result<int> run_push_recommendations(const PushRecommendationsOptions& options, const Target& target);

}  // namespace freshet::ctl
