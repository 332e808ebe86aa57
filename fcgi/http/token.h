// Bearer tokens that the site's back end signs, so that a request can name its reader without a
// lookup. INTEGRATION.md ("Tokens") describes the format:
//
//   v1.<kid>.<uid>.<exp>.<hmac>   hmac: lower-case hex HMAC-SHA256(key, "v1.<kid>.<uid>.<exp>")
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "fcgi/http/hmac.h"

namespace freshet::http {

class TokenKeys {
 public:
  // Key id → secret; two while keys are rotated: the old one is valid until it is removed. Errors:
  // kInvalid, "weak_key" or "bad_key_id".
  static Result<TokenKeys> create(const std::map<std::string, std::string>& secrets);

  // The reader that the token names. Errors: kUnauthorised, "bad_token" for anything wrong with it
  // (a single code, so that it reveals nothing), "expired_token" for a genuine one at or after exp.
  // O(bytes) and one HMAC.
  Result<ReaderId> verify(std::string_view token, UnixSeconds now);

  // For tools and tests. Error: kInvalid, "bad_key_id" for an unknown key.
  Result<std::string> sign(const std::string& kid, const ReaderId& reader, UnixSeconds expires);

  bool empty() const { return keys_.empty(); }

 private:
  std::map<std::string, Hmac, std::less<>> keys_;
};

}  // namespace freshet::http
