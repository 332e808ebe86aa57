// freshetctl import: sends items from an NDJSON file to a running service. Progress is saved after
// each acknowledged chunk (resume.h), so an interrupted import can be resumed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "scripts/ctl/commands/target.h"
#include "scripts/ctl/replay/chunks.h"

namespace freshet::ctl {

// {"accepted":…,"rejected":[{"line","code"}],"ignored":{member: lines}}
struct BulkReply {
  std::int64_t accepted = 0;
  std::vector<std::pair<std::size_t, std::string>> rejected;  // line of the body (from 1) and error code
  std::map<std::string, std::int64_t>
      ignored;  // members that the service does not know → accepted lines with them
};
Result<BulkReply> parse_bulk_reply(std::string text);

struct ImportOptions {
  std::string file;
  bool shift_to_now = false;
  std::string events;         // log to be replayed afterwards; empty: events.ndjson next to the file
  std::string speed = "max";  // of that replay
  std::string resume;         // file for the progress; empty: FILE.import
  bool json = false;
  bool quiet = false;
};

// Returns the exit status: 1 when a line was rejected. Errors: anything that prevents completion.
Result<int> run_import(const ImportOptions& options, const Target& target);

}  // namespace freshet::ctl
