// freshetctl import-events: sends ratings and reactions of the past, with their times, as
// interactions of readers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

// Converts the lines of a log to lines of POST /api/interactions. The first line that is not empty
// decides the format:
//   NDJSON: {"user","item","at", and "type" or "rating"}; `at` is a date or Unix seconds
//   CSV: a header with the columns user (userId), item (itemId, movieId), timestamp (at), and
//        rating or type, in any order; others are ignored. A record is one line.
// A type is an interaction (like, favorite, share, reply, post, in any case) or one that `kinds`
// names. A rating of `min_rating` or more is a like.
class EventConverter {
 public:
  EventConverter(double min_rating, std::map<std::string, std::string> kinds);

  struct Converted {
    std::string line;      // JSON; empty if there is nothing to send
    std::string left_out;  // why the event is none that can be imported; empty otherwise
  };
  // Errors: kInvalid, if the line cannot be read; "bad_header" if it is the first of a table.
  Result<Converted> convert(std::string_view line);

 private:
  struct Event {
    std::string user, item, at, type, rating;
  };
  Result<bool> read_csv(std::string_view line, Event& event);
  Result<Converted> interaction(const Event& event) const;

  const double min_rating_;
  const std::map<std::string, std::string> kinds_;
  bool has_format_ = false, is_csv_ = false;
  std::vector<std::string Event::*> columns_;  // of CSV; null: ignored
};

struct ImportEventsOptions {
  std::string file;  // "-": stdin
  double min_rating = 4;
  std::vector<std::string> kinds;  // "vote=like"
  bool json = false;
  bool quiet = false;
};

// Views are left out, because the service counts them when they happen. A repetition changes
// nothing. Needs memory for 1,000 lines. Returns the exit status: 1 when a line was rejected.
Result<int> run_import_events(const ImportEventsOptions& options, const Target& target);

}  // namespace freshet::ctl
