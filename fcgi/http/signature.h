// Signed requests to the internal server, required once identity.internal_keys names keys.
//
//   Authorization: Freshet-HMAC-SHA256 kid=k1, ts=1772798400, sig=<64 hexadecimal digits>
//
//   sig = HMAC-SHA256(key, "v1\n" method "\n" target "\n" ts "\n" digest)
//   digest: SHA-256 of the body in lower-case hexadecimal
//
// target: path and query as sent; ts: unix seconds, at most kMaxClockSkew from our clock. In a
// shell:
//
//   ts=$(date +%s); digest=$(printf %s "$body" | sha256sum | cut -d' ' -f1)
//   message=$(printf 'v1\n%s\n%s\n%s\n%s' POST /api/items "$ts" "$digest")
//   sig=$(printf %s "$message" | openssl dgst -sha256 -hmac "$key" -r | cut -d' ' -f1)
//
// A signed request can be replayed within that time: signatures keep others out, and writes are
// idempotent (eventId). Use TLS in front of the internal server if its traffic can be read.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "fcgi/http/hmac.h"

namespace freshet::http {

inline constexpr std::string_view kSignatureScheme = "Freshet-HMAC-SHA256";

// The signed parts of a request.
struct SignedRequest {
  std::string_view method;  // "POST"
  std::string_view target;  // "/api/items?x=1"
  std::string_view body;
};

// Not thread-safe.
class SignatureKeys {
 public:
  static constexpr seconds kMaxClockSkew{300};

  // Key id → key; two while keys are rotated. Errors: kInvalid, "weak_key" or "bad_key_id".
  static Result<SignatureKeys> create(const std::map<std::string, std::string>& secrets);

  // No keys: signatures are not required.
  bool empty() const { return keys_.empty(); }

  // The id of the key that signed it, a part of `authorization`. Errors: kUnauthorised,
  // "bad_signature" for anything wrong with it, "stale_signature" for a genuine one outside
  // kMaxClockSkew. One SHA-256 of the body and one HMAC.
  Result<std::string_view> verify(std::string_view authorization, const SignedRequest& request,
                                  UnixSeconds now);

  // The value of Authorization. Error: kInvalid, "bad_key_id" for an unknown key.
  Result<std::string> sign(const std::string& kid, const SignedRequest& request, UnixSeconds now);

 private:
  std::map<std::string, Hmac, std::less<>> keys_;
};

// True if `kid` is a valid key id: [A-Za-z0-9_-]+.
bool is_key_id(std::string_view kid);

}  // namespace freshet::http
