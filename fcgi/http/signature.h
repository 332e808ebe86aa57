// Who may ask the internal server, once identity.internal_keys names keys: callers that sign.
//
//   Authorization: Freshet-HMAC-SHA256 kid=k1, ts=1772798400, sig=<64 hexadecimal digits>
//
//   sig = HMAC-SHA256(key, "v1\n" method "\n" target "\n" ts "\n" SHA-256 of the body in lower-case
//   hexadecimal)
//
// target: path and query as sent; ts: unix seconds, at most kWindow from ours. In a shell:
//
//   ts=$(date +%s); digest=$(printf %s "$body" | sha256sum | cut -d' ' -f1)
//   said=$(printf 'v1\n%s\n%s\n%s\n%s' POST /api/items "$ts" "$digest")
//   sig=$(printf %s "$said" | openssl dgst -sha256 -hmac "$key" -r | cut -d' ' -f1)
//
// What was signed can be sent again within the window: the keys keep others out, and writes are
// made to be repeated (eventId). Where the wire can be read, TLS belongs before the internal
// server.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "fcgi/http/hmac.h"

namespace freshet::http {

inline constexpr std::string_view kSignatureScheme = "Freshet-HMAC-SHA256";

// What is signed of a request.
struct SignedRequest {
  std::string_view method;  // "POST"
  std::string_view target;  // "/api/items?x=1"
  std::string_view body;
};

// Not thread-safe.
class SignatureKeys {
 public:
  static constexpr seconds kMaxClockSkew{300};

  // kid → key; two while keys are rotated. Errors: kInvalid, "weak_key" or "bad_key_id".
  static Result<SignatureKeys> create(const std::map<std::string, std::string>& secrets);

  // No keys: everybody may ask.
  bool empty() const { return keys_.empty(); }

  // Errors: kUnauthorised, "bad_signature" for all that is wrong with it, "stale_signature" for a
  // genuine one of another time. One SHA-256 of the body and one HMAC.
  Result<void> verify(std::string_view authorization, const SignedRequest& request, UnixSeconds now);

  // The value of Authorization. Error: kInvalid, "bad_key_id" for an unknown one.
  Result<std::string> sign(const std::string& kid, const SignedRequest& request, UnixSeconds now);

 private:
  std::map<std::string, Hmac, std::less<>> keys_;
};

// True iff `kid` can name a key: [A-Za-z0-9_-]+.
bool is_key_id(std::string_view kid);

}  // namespace freshet::http
