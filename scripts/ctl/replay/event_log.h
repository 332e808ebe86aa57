// Event logs for freshetctl replay: NDJSON in the format of the shipped sample, or Deskdrop's CSV.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

inline constexpr std::int64_t kDwellCapMs = 180000;  // per event

struct LogEvent {
  UnixSeconds at;
  std::string type;  // "view", "vote", …; used by --type only
  std::string item;
  std::string user;
  std::string session;     // empty: the log has none
  std::string user_agent;  // empty: the log has none
  std::int64_t dwell_ms = 0;
};

// Data of an item, from a file of items next to the log.
struct LogItem {
  UnixSeconds published;
  std::string title;
};
using LogItems = std::unordered_map<std::string, LogItem>;

// --- Reading. Events are returned in order of time; events of the same second keep the order of
// the file.
// Errors: kInvalid "bad_log", detail "line N: what is wrong".

// One object per line: {"at":…,"type":…,"item":…,"user":…,"session"?,"dwellMs"?,"userAgent"?}. `at`
// is RFC 3339 or Unix seconds.
Result<std::vector<LogEvent>> parse_events(std::string_view ndjson);
// Deskdrop's users_interactions.csv; columns are found by the names in its first line.
Result<std::vector<LogEvent>> parse_deskdrop(std::string_view csv);
// Items as for POST /api/items: `id`, `title`, `published_at`.
Result<LogItems> parse_items(std::string_view ndjson);

// Deskdrop's log has no dwell times. Sets each event's dwell to the time until the session's next
// event, at most the cap; a session's last event gets 0. REQUIRES: `events` in order of time.
void derive_dwell(std::vector<LogEvent>& events);

struct Selection {
  std::optional<UnixSeconds> from, until;                       // from ≤ at < until
  std::vector<std::string> types;                               // empty: all
  std::size_t limit = std::numeric_limits<std::size_t>::max();  // at most this many, the first ones
};
std::vector<LogEvent> filter_events(std::vector<LogEvent> events, const Selection& selection);

struct EventLog {
  std::vector<LogEvent> events;
  LogItems items;  // empty without a file of items next to the log
};
// `path`: an NDJSON file (items.ndjson next to it is read, too), or a directory with
// users_interactions.csv or events.ndjson. Errors as above, with the path in the detail.
Result<EventLog> read_log(const std::string& path);
// Contents of a file. Errors: kNotFound "no_file".
Result<std::string> read_file(const std::string& path);
// Contents of a file or, if `path` is "-", of stdin. Errors: kNotFound "no_file"; kUnavailable
// "no_stdin".
Result<std::string> read_input(const std::string& path);

// Publish time of each item: from the items, else the time of its first event in the log.
std::unordered_map<std::string, UnixSeconds> publish_times(const EventLog& log);

}  // namespace freshet::ctl
