#include "core/base/utf8.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>

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

using Instance = const icu::Normalizer2* (*)(UErrorCode&);

// ICU's tables are part of its library: a failure means that the installation is broken.
const icu::Normalizer2& load(Instance instance) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const loaded = instance(error);
  if (U_SUCCESS(error) != 0) return *loaded;
  throw std::runtime_error(std::string("ICU is unusable: ") + u_errorName(error));
}

std::string normalize(const icu::Normalizer2& normalizer, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode error = U_ZERO_ERROR;
  normalizer.normalizeUTF8(0, {text.data(), static_cast<std::int32_t>(text.size())}, sink, nullptr, error);
  if (U_FAILURE(error) != 0) throw std::bad_alloc();  // the only failure of valid text
  return out;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
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

std::string to_nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  static const icu::Normalizer2& normalizer = load(icu::Normalizer2::getNFCInstance);
  return normalize(normalizer, text);
}

std::string fold(std::string_view text) {
  if (is_ascii(text)) {
    std::string out(text);
    for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    return out;
  }
  static const icu::Normalizer2& normalizer = load(icu::Normalizer2::getNFKCCasefoldInstance);
  return normalize(normalizer, text);
}

std::string_view fold(std::string_view text, std::string& buffer) {
  const bool is_folded = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80 && !(c >= 'A' && c <= 'Z');
  });
  return is_folded ? text : buffer = fold(text);
}

}  // namespace freshet::utf8
