// Hash slots of Redis Cluster: the slot of a key, and the key that routes a command.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace freshet::redis {

inline constexpr std::uint16_t kSlots = 16384;

// CRC16 (XMODEM) of the hash tag (the text in the first pair of braces), or of the whole key if
// there is no tag or it is empty. O(length).
std::uint16_t slot_of(std::string_view key);

// Slot of a RESP command's first key. nullopt if it has no key and any node may answer (PING,
// PUBLISH, SCAN, a script without keys). Does not check that the other keys are in the same slot;
// the server does. Knows the commands that we send; for any other command the first argument is
// taken as the key.
std::optional<std::uint16_t> slot_of_command(std::string_view resp);

// The command's name as written, such as "EVALSHA"; "" if `resp` is not a command.
std::string_view name_of_command(std::string_view resp);

// Position of a SCAN over all masters: the index of the current master (in the order of
// SlotMap::masters) and that node's own cursor. Its text form, "1.42", is what SCAN returns and
// takes in a cluster; "0" starts and ends.
struct ScanCursor {
  std::size_t master = 0;
  std::string_view node_cursor = "0";
};
// nullopt if `resp` is not a SCAN.
std::optional<ScanCursor> parse_scan_cursor(std::string_view resp);

}  // namespace freshet::redis
