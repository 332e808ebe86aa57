// freshetctl tune: chooses the hot list that is served by default, its parameters, and the weights
// of the feed, by how well each would have predicted what was read on this site, and writes the
// choice to a file that the service loads.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/config/config.h"
#include "core/tuning/feed_tuner.h"
#include "core/tuning/hot_tuner.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct TuneOptions {
  std::string output;    // instead of tune.file
  bool dry_run = false;  // write nothing
  // For timers: after kHourlyFor of counts, act once a day only; before, write only a new choice.
  bool if_due = false;
  bool json = false;
  bool quiet = false;  // print no table
};
inline constexpr seconds kHourlyFor{3 * 86400}, kTuneInterval{23 * 3600};

// The values of the tuned directives, and of others that the lists depend on.
tuning::HotValues hot_values(const Settings& settings);

// Undoes the choice of values that the administrator set, with a sentence in the reasons. Returns
// these values, and the defaults of all others.
tuning::HotValues keep_configured(tuning::HotDecision& decision, const tuning::HotValues& current,
                                  const ConfigSources& sources, const std::string& tune_file);

// The file's text: the reasons as comments, `format`, `created`, the table [values], and a last
// line "# end " with the XXH3 of everything before it, by which a truncated or changed file is
// recognized. The values are those that are neither the defaults nor in `configured`, which the
// administrator set and may remove again.
std::string tuned_text(const tuning::HotDecision& decision, UnixSeconds created,
                       const tuning::HotValues& configured = {}, const tuning::FeedDecision& feed = {},
                       const tuning::FixedFeedValues& fixed = {});

// Prints the lists with their quality, best first. `marks`: by list, printed at the end of its row.
void print_hot_lists(const tuning::HotScores& scores, const std::vector<std::string>& marks);
// Writes an array of the same; empty without moments.
void write_hot_lists(json::Writer& out, const tuning::HotScores& scores);

// With too few views it says so, keeps the values and returns 0. Under root it switches to the
// owner of the database. Errors: no database, the disk; the file then stays as it is.
Result<int> run_tune(const TuneOptions& options, const Target& target);

}  // namespace freshet::ctl
