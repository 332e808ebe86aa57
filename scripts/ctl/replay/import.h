// freshetctl import: sends items from an NDJSON file or stdin to a running service. Progress in a
// file is saved after each acknowledged chunk (resume.h), so an interrupted import can be resumed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "scripts/ctl/commands/target.h"
#include "scripts/ctl/replay/chunks.h"

namespace freshet::ctl {

struct RejectedLine {
  std::size_t line = 0;  // from 1
  std::string id;        // empty if the line has no valid id
  std::string code, member, detail;
};

// {"accepted":…,"rejected":[{"line","id","code","member","detail"}],"ignored":{member: lines}}
struct BulkReply {
  std::int64_t accepted = 0;
  std::vector<RejectedLine> rejected;  // with the line of the body
  std::map<std::string, std::int64_t>
      ignored;  // members that the service does not know → accepted lines with them
};
Result<BulkReply> parse_bulk_reply(std::string text);

// "CSV", "XML" or "a JSON array" if the text begins like one; else empty.
std::string_view other_format(std::string_view text);

struct ImportOptions {
  std::string file;  // "-": stdin
  bool shift_to_now = false;
  std::string events;         // log to be replayed afterwards; empty: events.ndjson next to the file
  std::string speed = "max";  // of that replay
  std::string resume;         // file for the progress; empty: FILE.import, or none for stdin
  bool json = false;
  bool quiet = false;
};

// Returns the exit status: 1 when a line was rejected. Errors: anything that prevents completion.
Result<int> run_import(const ImportOptions& options, const Target& target);

}  // namespace freshet::ctl
