#include "core/redis/partitions/key_encoding.h"

#include <algorithm>
#include <optional>

#include "core/base/hex.h"

namespace freshet::redis {
namespace {

bool must_encode(char c) {
  return static_cast<unsigned char>(c) <= 0x20 || c == '%' || c == ':' || c == '{' || c == '}';
}

std::optional<unsigned> digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace

std::size_t encoded_size(std::string_view part) {
  return part.size() + 2 * static_cast<std::size_t>(std::count_if(part.begin(), part.end(), must_encode));
}

void append_encoded(std::string& out, std::string_view part) {
  while (!part.empty()) {
    const auto end = std::find_if(part.begin(), part.end(), must_encode);
    out.append(part.begin(), end);
    part.remove_prefix(static_cast<std::size_t>(end - part.begin()));
    if (part.empty()) return;
    out += '%';
    append_hex(out, static_cast<unsigned char>(part.front()), kUpperHex);
    part.remove_prefix(1);
  }
}

std::string decode_key_part(std::string_view encoded) {
  std::string out;
  out.reserve(encoded.size());
  for (std::size_t at = 0; at < encoded.size(); ++at) {
    const bool is_escape = encoded[at] == '%' && encoded.size() - at > 2;
    const auto high = is_escape ? digit_value(encoded[at + 1]) : std::nullopt;
    const auto low = is_escape ? digit_value(encoded[at + 2]) : std::nullopt;
    if (high && low) {
      out += static_cast<char>(*high << 4U | *low);
      at += 2;
    } else {
      out += encoded[at];
    }
  }
  return out;
}

}  // namespace freshet::redis
