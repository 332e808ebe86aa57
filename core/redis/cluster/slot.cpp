#include "core/redis/cluster/slot.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace freshet::redis {
namespace {

constexpr std::array<std::uint16_t, 256> crc_table() {
  constexpr unsigned kPolynomial = 0x1021;
  std::array<std::uint16_t, 256> out{};
  for (unsigned byte = 0; byte < out.size(); ++byte) {
    unsigned crc = byte << 8U;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ kPolynomial : crc << 1U;
    out[byte] = static_cast<std::uint16_t>(crc);
  }
  return out;
}
constexpr auto kCrc = crc_table();

// Iterates over the arguments of a RESP command.
class Arguments {
 public:
  explicit Arguments(std::string_view resp) : rest_(resp) { remaining_ = read_length('*'); }
  std::optional<std::string_view> next() {
    if (remaining_ == 0) return std::nullopt;
    --remaining_;
    const std::size_t size = read_length('$');
    if (rest_.size() < size + 2) return std::nullopt;
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size + 2);
    return out;
  }
  std::optional<std::string_view> skip(std::size_t count) {
    for (; count > 0; --count) {
      if (!next()) return std::nullopt;
    }
    return next();
  }

 private:
  std::size_t read_length(char type) {
    std::size_t out = 0;
    if (rest_.empty() || rest_.front() != type) return 0;
    const auto [end, error] = std::from_chars(rest_.data() + 1, rest_.data() + rest_.size(), out);
    if (error != std::errc()) return 0;
    rest_.remove_prefix(std::min(rest_.size(), static_cast<std::size_t>(end - rest_.data()) + 2));
    return out;
  }

  std::string_view rest_;
  std::size_t remaining_ = 0;
};

// Position of a command's first key.
enum class KeyPosition : std::uint8_t {
  kNone,
  kAfterSubcommand,      // follows the subcommand
  kAfterKeyCount,        // follows numkeys
  kAfterScriptAndCount,  // follows the script and numkeys
  kAfterStreams,         // follows STREAMS
};
struct CommandRow {
  std::string_view name;
  KeyPosition key_position;
};
constexpr std::array kCommands{
    CommandRow{"ACL", KeyPosition::kNone},
    CommandRow{"AUTH", KeyPosition::kNone},
    CommandRow{"CLIENT", KeyPosition::kNone},
    CommandRow{"CLUSTER", KeyPosition::kNone},
    CommandRow{"COMMAND", KeyPosition::kNone},
    CommandRow{"CONFIG", KeyPosition::kNone},
    CommandRow{"DBSIZE", KeyPosition::kNone},
    CommandRow{"ECHO", KeyPosition::kNone},
    CommandRow{"EVAL", KeyPosition::kAfterScriptAndCount},
    CommandRow{"EVALSHA", KeyPosition::kAfterScriptAndCount},
    CommandRow{"EXEC", KeyPosition::kNone},
    CommandRow{"FLUSHALL", KeyPosition::kNone},
    CommandRow{"FLUSHDB", KeyPosition::kNone},
    CommandRow{"INFO", KeyPosition::kNone},
    CommandRow{"KEYS", KeyPosition::kNone},
    CommandRow{"MEMORY", KeyPosition::kAfterSubcommand},
    CommandRow{"MULTI", KeyPosition::kNone},
    CommandRow{"OBJECT", KeyPosition::kAfterSubcommand},
    CommandRow{"PING", KeyPosition::kNone},
    CommandRow{"PUBLISH", KeyPosition::kNone},
    CommandRow{"RANDOMKEY", KeyPosition::kNone},
    CommandRow{"ROLE", KeyPosition::kNone},
    CommandRow{"SCAN", KeyPosition::kNone},
    CommandRow{"SCRIPT", KeyPosition::kNone},
    CommandRow{"SELECT", KeyPosition::kNone},
    CommandRow{"TIME", KeyPosition::kNone},
    CommandRow{"WAIT", KeyPosition::kNone},
    CommandRow{"XGROUP", KeyPosition::kAfterSubcommand},
    CommandRow{"XINFO", KeyPosition::kAfterSubcommand},
    CommandRow{"XREAD", KeyPosition::kAfterStreams},
    CommandRow{"XREADGROUP", KeyPosition::kAfterStreams},
    CommandRow{"ZDIFF", KeyPosition::kAfterKeyCount},
    CommandRow{"ZINTER", KeyPosition::kAfterKeyCount},
    CommandRow{"ZINTERCARD", KeyPosition::kAfterKeyCount},
    CommandRow{"ZUNION", KeyPosition::kAfterKeyCount},
};

std::optional<std::string_view> key_after_count(Arguments& arguments, std::size_t skipped) {
  const auto count = arguments.skip(skipped);
  return count && *count != "0" ? arguments.next() : std::nullopt;
}

std::optional<std::string_view> first_key(std::string_view resp) {
  Arguments arguments(resp);
  const auto name = arguments.next();
  if (!name) return std::nullopt;
  const auto* const row = std::ranges::find(kCommands, *name, &CommandRow::name);
  if (row == kCommands.end()) return arguments.next();
  switch (row->key_position) {
    case KeyPosition::kNone:
      return std::nullopt;
    case KeyPosition::kAfterSubcommand:
      return arguments.skip(1);
    case KeyPosition::kAfterKeyCount:
      return key_after_count(arguments, 0);
    case KeyPosition::kAfterScriptAndCount:
      return key_after_count(arguments, 1);
    case KeyPosition::kAfterStreams:
      for (auto word = arguments.next(); word; word = arguments.next()) {
        if (*word == "STREAMS") return arguments.next();
      }
  }
  return std::nullopt;
}

}  // namespace

std::uint16_t slot_of(std::string_view key) {
  if (const std::size_t open = key.find('{'); open != key.npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  unsigned crc = 0;
  for (const char each : key) {
    const auto byte = static_cast<unsigned char>(each);
    crc = ((crc << 8U) ^ kCrc[((crc >> 8U) ^ byte) & 0xFFU]) & 0xFFFFU;
  }
  return static_cast<std::uint16_t>(crc % kSlots);
}

std::optional<std::uint16_t> slot_of_command(std::string_view resp) {
  const auto key = first_key(resp);
  return key ? std::optional(slot_of(*key)) : std::nullopt;
}

std::string_view name_of_command(std::string_view resp) {
  return Arguments(resp).next().value_or(std::string_view());
}

std::optional<ScanCursor> parse_scan_cursor(std::string_view resp) {
  Arguments arguments(resp);
  if (arguments.next() != "SCAN") return std::nullopt;
  const std::string_view text = arguments.next().value_or("0");
  const std::size_t dot = text.find('.');
  ScanCursor out;
  if (dot == text.npos) return out;
  std::from_chars(text.data(), text.data() + dot, out.master);
  out.node_cursor = text.substr(dot + 1);
  return out;
}

}  // namespace freshet::redis
