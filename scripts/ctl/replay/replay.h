// freshetctl replay: sends a log of events over HTTP at a chosen speed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "scripts/ctl/commands/target.h"
#include "scripts/ctl/replay/event_log.h"
#include "scripts/ctl/replay/latency_histogram.h"

namespace freshet::ctl {

enum class Route { kTrack, kViews };

// Adds sessions to a log that has none: a reader's pause of 30 minutes in the log starts a new one
// ("user-2"). Needed because the service's session window passes in real time: at 600 times the
// speed, 12 days of the log would be one session. REQUIRES: `events` in order of time.
void derive_sessions(std::vector<LogEvent>& events);

// Body of one report. `published`: Unix seconds. `round` counts from 1 and makes the sessions of a
// repeated log distinct. `event_id` may be empty.
std::string report_body(Route route, const LogEvent& event, std::int64_t published, std::int64_t round,
                        const std::string& event_id);

// Outcome of an event, by the reply.
enum class ReportOutcome { kCounted, kDedup, kBot, kQueued, kRefused, kFailed };
// 202 is kQueued, 4xx kRefused, anything else but 2xx kFailed. In a 2xx, `counted:false` is kBot
// and `dedup:true` a view within the window.
ReportOutcome outcome_of(int status, std::string body);

struct ReplayTotals {
  std::int64_t sent = 0;                     // requests with a reply
  std::array<std::int64_t, 6> by_outcome{};  // indexed by ReportOutcome
  std::map<int, std::int64_t> refusals;      // by status, all but 2xx
  std::int64_t lost = 0;                     // sent without a reply; may or may not have been counted
  std::int64_t resent = 0;                   // repeated with the same event id
  std::int64_t events = 0;
  std::int64_t rounds = 0;  // complete passes of the log
  LatencyHistogram latencies;
};

struct ReplayOptions {
  std::string log;
  std::string speed = "1";
  int connections = 8;
  std::string route = "track";  // track | views | both
  std::string from, until;
  std::vector<std::string> types;
  std::int64_t limit = 0;  // 0: unlimited
  bool shift_to_now = false;
  bool loop = false;
  bool event_ids = false;
  bool strict = false;
  bool quiet = false;
  std::string user_agent = "freshetctl/" FRESHET_VERSION;  // for events without one
  // Instead of sending: print the list at that time.
  std::string at;
  std::string model = "engagement";  // views | engagement
  std::string mode = "accumulate";   // views only: accumulate | current
  bool json = false;
};

// Returns the exit status: 1 after Ctrl-C or SIGTERM, if nothing was accepted, or with `strict` if
// anything was not. Errors: anything that prevents the start; a service that is unreachable for
// half a minute.
Result<int> run_replay(const ReplayOptions& options, const Target& target);

}  // namespace freshet::ctl
