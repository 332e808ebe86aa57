// Which slot of a Redis Cluster a key is in, and which key a command is sent by.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace freshet::redis {

inline constexpr std::uint16_t kSlots = 16384;

// Redis' rule: CRC16 (XMODEM) of what stands in the first braces, or of the whole key where they
// are missing or empty. O(length).
std::uint16_t slot_of(std::string_view key);

// The slot of the first key of a command in RESP; nullopt when it has none and any node may answer
// (PING, PUBLISH, SCAN, a script without keys). Whether its other keys are in the same slot is the
// server's business. Knows the commands that we send; of others the first argument counts as a key.
std::optional<std::uint16_t> slot_of_command(std::string_view resp);

// The command's name as it was written: "EVALSHA"; "" when `resp` is no command.
std::string_view name_of_command(std::string_view resp);

// Where a walk over the keys of all masters stands: which of them is walked (as SlotMap has them),
// and its own cursor. As text "1.42", which is what SCAN gives and takes of a cluster; "0" begins,
// and ends.
struct ScanCursor {
  std::size_t master = 0;
  std::string_view node_cursor = "0";
};
// Of a SCAN; nullopt: `resp` is none.
std::optional<ScanCursor> parse_scan_cursor(std::string_view resp);

}  // namespace freshet::redis
