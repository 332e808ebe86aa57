// Splits an NDJSON file of items into bodies of bulk requests, optionally with shifted times. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

// Limits of POST /api/items.
inline constexpr std::size_t kMaxChunkLines = 1000;
inline constexpr std::size_t kMaxChunkBytes = 8U << 20U;

struct Chunk {
  std::string body;                // NDJSON, without empty lines
  std::vector<std::size_t> lines;  // line number in the file (from 1) of each line in `body`
  std::size_t end_offset = 0;      // file offset after its last line
};

// Splits NDJSON into chunks within both limits. Lines that exceed `max_bytes` alone are listed in
// `too_long`. O(bytes).
struct Chunks {
  std::vector<Chunk> chunks;
  std::vector<std::size_t> too_long;
};
Chunks split_into_chunks(std::string_view ndjson, std::size_t max_lines = kMaxChunkLines,
                         std::size_t max_bytes = kMaxChunkBytes);

// Shifts published_at, update_time and expires_at of one item, and nothing else. Errors: kInvalid.
Result<std::string> shift_item(std::string_view line, seconds shift);

// Applies shift_item() to every line of every chunk. Errors: kInvalid, with the line in the detail.
Result<void> shift_chunks(std::vector<Chunk>& chunks, seconds shift);

}  // namespace freshet::ctl
