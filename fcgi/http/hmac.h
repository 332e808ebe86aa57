// HMAC-SHA256 with one fixed key. The algorithm is fetched and the key scheduled once; a short
// message then costs about 0.5 µs. Not thread-safe. May be created before a fork and used after it.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/hex.h"
#include "core/base/result.h"

typedef struct evp_mac_ctx_st EVP_MAC_CTX;

namespace freshet::http {

class Hmac {
 public:
  static constexpr std::size_t kMinKeyBytes = 16;
  using Digest = std::array<unsigned char, 32>;

  // Errors: kInvalid, "weak_key" (shorter than kMinKeyBytes); kInternal, "hmac" (OpenSSL has no
  // HMAC-SHA256).
  static Result<Hmac> create(std::string_view key);

  Digest compute(std::string_view bytes);
  // The digest of several fields. Each is prefixed with its length, so that different lists of
  // fields never form the same message.
  Digest compute_fields(std::initializer_list<std::string_view> fields);

 private:
  struct ContextDeleter {
    void operator()(EVP_MAC_CTX* context) const;
  };
  explicit Hmac(EVP_MAC_CTX* context) : context_(context) {}
  std::unique_ptr<EVP_MAC_CTX, ContextDeleter> context_;
};

// RFC 4648 base64url without padding.
std::string base64url(std::string_view bytes);
// The first 16 bytes of the digest as base64url: 22 characters.
std::string truncated_base64url(const Hmac::Digest& digest);
// Constant-time comparison: the time depends only on the lengths.
bool constant_time_equal(std::string_view a, std::string_view b);

}  // namespace freshet::http
