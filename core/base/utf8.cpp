#include "core/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace freshet::utf8 {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80; }

unsigned byte_at(std::string_view bytes, std::size_t at) { return static_cast<unsigned char>(bytes[at]); }

// A sequence's length and the range of its second byte, determined by the lead byte. The second
// byte's range is what excludes overlong forms and surrogates.
struct LeadByte {
  std::size_t length;
  unsigned second_min, second_max;
};

LeadByte classify_lead(unsigned first) {
  if (first >= 0xC2 && first <= 0xDF) return {2, 0x80, 0xBF};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first >= 0xE1 && first <= 0xEF) return {3, 0x80, 0xBF};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first >= 0xF1 && first <= 0xF3) return {4, 0x80, 0xBF};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

CodePoint decode(std::string_view bytes, std::size_t at) {
  const unsigned first = byte_at(bytes, at);
  if (first < 0x80) return {first, 1};
  const LeadByte lead = classify_lead(first);
  if (lead.length == 0 || bytes.size() - at < lead.length) return {};
  const unsigned second = byte_at(bytes, at + 1);
  if (second < lead.second_min || second > lead.second_max) return {};
  char32_t value = first & (0x7Fu >> lead.length);
  value = value << 6 | (second & 0x3Fu);
  for (std::size_t i = 2; i < lead.length; ++i) {
    const unsigned next = byte_at(bytes, at + i);
    if ((next & 0xC0u) != 0x80) return {};
    value = value << 6 | (next & 0x3Fu);
  }
  return {value, lead.length};
}

bool is_valid(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t eight = 0;
    if (bytes.size() - at >= sizeof eight) {
      std::memcpy(&eight, bytes.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const std::size_t size = decode(bytes, at).size;
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::string_view prefix(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && is_continuation(text[max_bytes])) --max_bytes;
  return text.substr(0, max_bytes);
}

std::size_t length(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, is_continuation));
}

}  // namespace freshet::utf8
