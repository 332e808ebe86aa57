#include "fcgi/http/hmac.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstdint>

namespace freshet::http {
namespace {

const unsigned char* unsigned_bytes(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

void Hmac::ContextDeleter::operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }

Result<Hmac> Hmac::create(std::string_view key) {
  if (key.size() < kMinKeyBytes) {
    return fail(ErrorCode::kInvalid, "weak_key", {}, "a key must have at least 16 bytes");
  }
  EVP_MAC* const algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  EVP_MAC_CTX* const context = algorithm ? EVP_MAC_CTX_new(algorithm) : nullptr;
  EVP_MAC_free(algorithm);  // the context holds its own reference
  Hmac hmac(context);
  char digest[] = "SHA256";
  const std::array parameters{OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                              OSSL_PARAM_construct_end()};
  if (!context || EVP_MAC_init(context, unsigned_bytes(key), key.size(), parameters.data()) != 1) {
    return fail(ErrorCode::kInternal, "hmac", {}, "OpenSSL has no HMAC-SHA256");
  }
  return hmac;
}

Hmac::Digest Hmac::compute(std::string_view bytes) {
  Digest digest{};
  std::size_t size = 0;
  // A null key resets the context and keeps its key.
  EVP_MAC_init(context_.get(), nullptr, 0, nullptr);
  EVP_MAC_update(context_.get(), unsigned_bytes(bytes), bytes.size());
  EVP_MAC_final(context_.get(), digest.data(), &size, digest.size());
  return digest;
}

Hmac::Digest Hmac::compute_fields(std::initializer_list<std::string_view> fields) {
  std::size_t bytes = 0;
  for (const std::string_view field : fields) bytes += 8 + field.size();
  std::string message;
  message.reserve(bytes);
  for (const std::string_view field : fields) {
    for (std::uint64_t size = field.size(), i = 0; i < 8; ++i)
      message.push_back(static_cast<char>(size >> 8 * i));
    message.append(field);
  }
  return compute(message);
}

std::string base64url(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  text.reserve((4 * bytes.size() + 2) / 3);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) text.push_back(kDigits[bits >> (count - 6) & 63]);
  }
  if (count > 0) text.push_back(kDigits[bits << (6 - count) & 63]);
  return text;
}

std::string truncated_base64url(const Hmac::Digest& digest) {
  return base64url({reinterpret_cast<const char*>(digest.data()), 16});
}

bool constant_time_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace freshet::http
