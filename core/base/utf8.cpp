#include "core/base/utf8.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace freshet::utf8 {
namespace {

bool is_continuation(char byte) { return U8_IS_TRAIL(byte); }

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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // in ICU's macro
CodePoint decode(std::string_view bytes, std::size_t at) {
  const auto* const text = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t next = at;
  UChar32 value = 0;
  U8_NEXT(text, next, bytes.size(), value);
  return value < 0 ? CodePoint() : CodePoint{static_cast<char32_t>(value), next - at};
}
#pragma GCC diagnostic pop

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

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

std::string single_spaced(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    const std::size_t size = std::max<std::size_t>(c.size, 1);
    if (c.size == 0 || !is_white_space(c.value)) {
      out.append(text, at, size);
    } else if (!out.empty() && !out.ends_with(' ')) {
      out += ' ';
    }
    at += size;
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
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
