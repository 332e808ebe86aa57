// freshetctl import: items from an NDJSON file into a running service.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "scripts/ctl/target.h"

namespace freshet::ctl {

// What POST /api/items takes at once.
inline constexpr std::size_t kMostChunkLines = 1000;
inline constexpr std::size_t kMostChunkBytes = 8U << 20U;

struct Chunk {
  std::string body;                // NDJSON, without empty lines
  std::vector<std::size_t> lines;  // of the file, counted from 1: the number of each line in `body`
};

// Cuts NDJSON into chunks within both limits. A line that alone exceeds the bytes is in `too_long`. O(bytes).
struct Chunks {
  std::vector<Chunk> chunks;
  std::vector<std::size_t> too_long;
};
Chunks cut_into_chunks(std::string_view ndjson, std::size_t most_lines = kMostChunkLines,
                       std::size_t most_bytes = kMostChunkBytes);

// One line of items with published_at and update_time moved by `shift`; everything else as it was. Errors:
// kInvalid.
Result<std::string> shifted_item(std::string_view line, seconds shift);

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
  bool quiet = false;
};

// The exit status: 1 when a line was rejected. Errors: what keeps the whole from being done.
Result<int> run_import(const ImportOptions& options, const Target& target);

}  // namespace freshet::ctl
