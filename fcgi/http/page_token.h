// Signed tokens of feed pages: name the buffer and page that a client received last.
//
//   <generation>.<sequence>.<hmac>   both numbers in decimal; hmac: 22 characters of base64url over
//                                    the reader and both numbers
//
// A token grants nothing; a forged one, or another reader's, is rejected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "fcgi/http/hmac.h"

namespace freshet::http {

struct FeedPageId {
  std::int64_t generation = 0;
  std::int64_t sequence = 0;
};

// Not thread-safe. One HMAC per call.
class PageTokenSigner {
 public:
  // `salt` is the service's own (identity.salt_file). It must be the same on every host, or tokens
  // are valid only on the host that issued them. Error: kInvalid, "weak_key".
  static Result<PageTokenSigner> create(std::string_view salt);

  std::string sign(const ReaderId& reader, FeedPageId page);
  // Error: kInvalid, "bad_page" (member "page") for any token that was not signed for this reader.
  Result<FeedPageId> verify(const ReaderId& reader, std::string_view token);

 private:
  explicit PageTokenSigner(Hmac hmac) : hmac_(std::move(hmac)) {}
  std::string compute_mac(const ReaderId& reader, std::string_view generation, std::string_view sequence);
  Hmac hmac_;
};

}  // namespace freshet::http
