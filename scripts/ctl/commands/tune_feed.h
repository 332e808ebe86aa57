// The part of `freshetctl tune` that chooses the settings of the feed.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/config/config.h"
#include "core/tuning/feed_tuner.h"
#include "core/tuning/hot_scores.h"
#include "core/tuning/view_history.h"

namespace freshet::ctl {

tuning::FeedCandidate feed_values(const Settings& settings);
// The values that the administrator set.
tuning::FixedFeedValues fixed_feed_values(const ConfigSources& sources, const std::string& tune_file);

// `history` and `hot` provide the trending list of the past. Temporarily builds an index of up to
// 40,000 items in $TMPDIR. After an error, the current values with the error as the reason.
tuning::FeedDecision decide_feed(const Settings& settings, const tuning::FixedFeedValues& fixed,
                                 const tuning::ViewHistory& history, const tuning::HotValues& hot,
                                 UnixSeconds now);

// The lines of the tuned file, see tuned_text().
std::string tuned_feed_lines(const tuning::FeedCandidate& values, const tuning::FixedFeedValues& fixed);
// The best ten and the current one, best first; nothing without scores.
void print_feeds(const tuning::FeedDecision& decision);
void write_feeds(json::Writer& out, const tuning::FeedScores& scores);

}  // namespace freshet::ctl
