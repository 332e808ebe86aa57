// A file of items cut into the bodies of bulk requests, its times moved when asked for. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

// What POST /api/items takes at once.
inline constexpr std::size_t kMaxChunkLines = 1000;
inline constexpr std::size_t kMaxChunkBytes = 8U << 20U;

struct Chunk {
  std::string body;                // NDJSON, without empty lines
  std::vector<std::size_t> lines;  // of the file, counted from 1: the number of each line in `body`
  std::size_t end_offset = 0;             // offset in the file behind its last line
};

// Cuts NDJSON into chunks within both limits. A line that alone exceeds the bytes is in `too_long`.
// O(bytes).
struct Chunks {
  std::vector<Chunk> chunks;
  std::vector<std::size_t> too_long;
};
Chunks split_into_chunks(std::string_view ndjson, std::size_t max_lines = kMaxChunkLines,
                       std::size_t max_bytes = kMaxChunkBytes);

// One line of items with published_at and update_time moved by `shift`; everything else as it was.
// Errors: kInvalid.
Result<std::string> shift_item(std::string_view line, seconds shift);

// shifted_item() for every line of every chunk. Errors: kInvalid, with the line in the detail.
Result<void> shift_chunks(std::vector<Chunk>& chunks, seconds shift);

}  // namespace freshet::ctl
