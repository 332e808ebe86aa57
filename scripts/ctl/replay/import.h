// freshetctl import: items from an NDJSON file into a running service. Each chunk's acknowledgement
// is noted in a file (resume.h), so that an interrupted import goes on where it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "scripts/ctl/commands/target.h"
#include "scripts/ctl/replay/chunks.h"

namespace freshet::ctl {

// {"accepted":…,"rejected":[{"line","code"}]}
struct BulkReply {
  std::int64_t accepted = 0;
  std::vector<std::pair<std::size_t, std::string>> rejected;  // line of the body, counted from 1; code
};
Result<BulkReply> parse_bulk_reply(std::string text);

struct ImportOptions {
  std::string file;
  bool shift_to_now = false;
  std::string events;         // the log that is replayed afterwards; empty: events.ndjson beside the file
  std::string speed = "max";  // of that replay
  std::string resume;         // where it notes how far it has come; empty: FILE.import
  bool json = false;
  bool quiet = false;
};

// The exit status: 1 when a line was rejected. Errors: what keeps the whole from being done.
Result<int> run_import(const ImportOptions& options, const Target& target);

}  // namespace freshet::ctl
