// The token of a feed page: says which page of which buffer a client received last, and that we
// said so.
//
//   <generation>.<sequence>.<hmac>      both in decimal; hmac = 22 characters of base64url over
//   reader and both
//
// It carries no right: a token of another reader, or one that is made up, is refused.
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

// Not thread-safe. One HMAC a call.
class PageTokenSigner {
 public:
  // `salt` is the service's own (identity.salt_file): the same on every host, or tokens are only
  // good where they were made. Error: kInvalid, "weak_key".
  static Result<PageTokenSigner> create(std::string_view salt);

  std::string sign(const ReaderId& reader, FeedPageId page);
  // Error: kInvalid, "bad_page" (member "page") for all that we did not sign for this reader.
  Result<FeedPageId> verify(const ReaderId& reader, std::string_view token);

 private:
  explicit PageTokenSigner(Hmac hmac) : hmac_(std::move(hmac)) {}
  std::string compute_mac(const ReaderId& reader, std::string_view generation, std::string_view sequence);
  Hmac hmac_;
};

}  // namespace freshet::http
