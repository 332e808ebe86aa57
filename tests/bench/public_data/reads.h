// Reads of public data sets, for the protocols that replay them by time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::bench {

struct Read {
  std::int64_t at = 0;
  std::uint32_t item = 0, reader = 0, session = 0;
};

struct Reads {
  std::vector<Read> reads;  // in order of time
  std::vector<std::optional<UnixSeconds>> published;
};

// Items without a publication date are published at their first read, as the service assumes.
void date_items(Reads& data);

// Reads the file of news clicks, unpacked; dates the items. Errors: kNotFound "no_file", kInvalid
// "bad_data".
Result<Reads> read_clicks(const std::filesystem::path& path);

// A hash of the reader's number, for samples of readers.
constexpr std::uint64_t reader_hash(std::uint32_t reader) {
  return ((reader + 1ULL) * 0x9E3779B97F4A7C15ULL) >> 33;
}

}  // namespace freshet::bench
