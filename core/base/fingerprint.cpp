#include "core/base/fingerprint.h"

#include <openssl/sha.h>

#include <array>
#include <charconv>

namespace freshet {

std::uint64_t fingerprint(std::string_view text) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < kFingerprintDigits / 2; ++i) out = out << 8U | digest[i];
  return out;
}

std::unordered_set<std::uint64_t> parse_fingerprints(std::string_view digits) {
  std::unordered_set<std::uint64_t> out;
  out.reserve(digits.size() / kFingerprintDigits);
  for (; digits.size() >= kFingerprintDigits; digits.remove_prefix(kFingerprintDigits)) {
    const char* const end = digits.data() + kFingerprintDigits;
    std::uint64_t value = 0;
    if (std::from_chars(digits.data(), end, value, 16).ptr == end) out.insert(value);
  }
  return out;
}

}  // namespace freshet
