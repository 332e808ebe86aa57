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

}  // namespace freshet::redis
