// freshetctl import: sends items to a running service, from an NDJSON file or stdin or another
// source (import/import_source.h). Progress in an NDJSON file is saved after each acknowledged
// chunk (resume.h), so an interrupted import can be resumed.
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

// The format of a text that begins like something else than NDJSON, such as "CSV", "XML" or "a JSON
// array"; else empty.
std::string_view other_format(std::string_view text);

inline constexpr milliseconds kBulkTimeout{35000};  // the service's own limit for a bulk request is 30 s

// Sends a bulk request to a route where repeating it changes nothing, again if the service is busy.
// Errors: of HttpClient; kUnavailable "refused".
Result<BulkReply> post_lines(HttpClient& http, const std::string& path, std::string ndjson);

struct ImportOptions {
  std::string file;  // "-": stdin
  std::string job;   // file with more options (job_file.h)
  // Sources other than `file`. Exactly one source is not empty.
  std::string feed, sitemap, wxr, ghost, markdown, csv, outbox;
  std::string id;            // IdRule
  std::string source;        // name of the source; empty: its URL or absolute path
  std::string base_url;      // of relative links
  std::string cache;         // folder of what imports remember (source_state.h)
  std::string limit_age;     // "90d": leave out older entries; empty: none
  bool prune = false;        // delete items that are gone from the source
  bool force = false;        // also more than a third
  bool dry_run = false;      // print the items instead
  bool public_only = false;  // refuse private addresses, except those of `hosts`
  std::vector<std::string> hosts;
  std::uint64_t max_bytes = 32U << 20;  // of a fetched document
  int timeout_s = 60;                   // of a fetched document
  // Only for NDJSON:
  bool shift_to_now = false;
  std::string events;         // log to be replayed afterwards; empty: events.ndjson next to the file
  std::string speed = "max";  // of that replay
  std::string resume;         // file for the progress; empty: FILE.import, or none for stdin

  bool json = false;
  bool quiet = false;
};

// Returns the exit status: 1 when a line was rejected. Errors: anything that prevents completion.
Result<int> run_import(ImportOptions options, const Target& target);

}  // namespace freshet::ctl
