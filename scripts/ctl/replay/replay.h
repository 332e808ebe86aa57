// freshetctl replay: a log of events through HTTP, at a chosen speed.
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

// A log without sessions gets them: a reader who does nothing for 30 minutes of the log begins a
// new one ("user-2"). They are needed because the service's session window passes in real time: at
// 600 times the speed, 12 days of the log would be one session. REQUIRES: `events` in order of
// time.
void derive_sessions(std::vector<LogEvent>& events);

// The body of one report. `published` is unix seconds; `round` counts from 1 and sets the sessions
// of a repeated log apart; `event_id` may be empty.
std::string report_body(Route route, const LogEvent& event, std::int64_t published, std::int64_t round,
                        const std::string& event_id);

// What a reply says was done with an event.
enum class ReportOutcome { kCounted, kDedup, kBot, kQueued, kRefused, kFailed };
// 202 is queued, 4xx refused, all else but 2xx failed; in a 2xx `counted:false` is a bot,
// `dedup:true` a view within the window.
ReportOutcome outcome_of(int status, std::string body);

struct ReplayTotals {
  std::int64_t sent = 0;                     // requests that got a reply
  std::array<std::int64_t, 6> by_outcome{};  // of them, by Outcome
  std::map<int, std::int64_t> refusals;      // by status, all that are not 2xx
  std::int64_t lost = 0;                     // sent, no reply came: it may have been counted or not
  std::int64_t resent = 0;                   // sent again, with the same event id
  std::int64_t events = 0;
  std::int64_t rounds = 0;  // whole passes of the log
  LatencyHistogram latencies;
};

struct ReplayOptions {
  std::string log;
  std::string speed = "1";
  int connections = 8;
  std::string route = "track";  // track | views | both
  std::string from, until;
  std::vector<std::string> types;
  std::int64_t limit = 0;  // 0: all
  bool shift_to_now = false;
  bool loop = false;
  bool event_ids = false;
  bool strict = false;
  bool quiet = false;
  std::string user_agent = "freshetctl/" FRESHET_VERSION;  // of events whose log has none
  // Instead of sending: the list as it stood then.
  std::string at;
  std::string model = "engagement";  // views | engagement
  std::string mode = "accumulate";   // views only: accumulate | current
  bool json = false;
};

// The exit status: 1 after Ctrl-C or SIGTERM, when nothing was accepted, or with `strict` when
// anything was not. Errors: what keeps it from starting, or a service that does not come back for
// half a minute.
Result<int> run_replay(const ReplayOptions& options, const Target& target);

}  // namespace freshet::ctl
