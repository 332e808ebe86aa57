// Logs of what readers did, as freshetctl replays them: the shipped sample's NDJSON, or Deskdrop's
// CSV.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

inline constexpr std::int64_t kDwellCapMs = 180000;  // of one report

struct LogEvent {
  UnixSeconds at;
  std::string type;  // "view", "vote", …: only for --type
  std::string item;
  std::string user;
  std::string session;     // empty: the log has none
  std::string user_agent;  // empty: the log has none
  std::int64_t dwell_ms = 0;
};

// What the site says of an item, where a file of items lies beside the log.
struct LogItem {
  UnixSeconds published;
  std::string title;
};
using LogItems = std::unordered_map<std::string, LogItem>;

// --- Reading. Events come back in order of time; those of one second in the order of the file.
// Errors: kInvalid, "bad_log", detail "line N: what is wrong".

// {"at":…,"type":…,"item":…,"user":…,"session"?,"dwellMs"?,"userAgent"?} a line. `at` is RFC 3339
// or unix seconds.
Result<std::vector<LogEvent>> parse_events(std::string_view ndjson);
// Deskdrop's users_interactions.csv, columns by the names in its first line.
Result<std::vector<LogEvent>> parse_deskdrop(std::string_view csv);
// Items as POST /api/items takes them: `id`, `title`, `published_at`.
Result<LogItems> parse_items(std::string_view ndjson);

// Deskdrop has no dwell. What its log does say is when the session did its next thing: that span,
// at most the cap, is the dwell of each event; the last one of a session has 0. REQUIRES: `events`
// in order of time.
void derive_dwell(std::vector<LogEvent>& events);

struct Selection {
  std::optional<UnixSeconds> from, until;                       // from ≤ at < until
  std::vector<std::string> types;                               // empty: all
  std::size_t limit = std::numeric_limits<std::size_t>::max();  // the first so many
};
std::vector<LogEvent> filter_events(std::vector<LogEvent> events, const Selection& selection);

struct EventLog {
  std::vector<LogEvent> events;
  LogItems items;  // empty when no file of items lies beside it
};
// `path`: an NDJSON file (items.ndjson beside it is read too), or a directory with
// users_interactions.csv or events.ndjson. Errors as above, with the path in the detail.
Result<EventLog> read_log(const std::string& path);
// The bytes of a file. Errors: kNotFound, "no_file".
Result<std::string> read_file(const std::string& path);

// When each item was published: what the items say, else when the log first speaks of it.
std::unordered_map<std::string, UnixSeconds> publish_times(const EventLog& log);

}  // namespace freshet::ctl
