// Fetches the documents of a source over HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/network_set.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

inline constexpr std::uint64_t kMaxDocumentBytes = 32U << 20;

struct FetchOptions {
  std::string credentials;  // a URL, whose user and password are sent to its origin; may have none
  // Refuses private, loopback, link-local, multicast and reserved addresses.
  bool public_only = false;
  std::vector<std::string> allowed_hosts;       // exempt from it
  std::uint64_t max_bytes = kMaxDocumentBytes;  // of a document, unpacked
  milliseconds timeout{60'000};                 // for a request
};

// Sent by a server with a document, and to it with the next request for it. Empty: absent.
struct Validators {
  std::string etag, last_modified;
  bool operator==(const Validators&) const = default;
};

struct Document {
  bool unchanged = false;  // 304: there is no body
  std::string body;
  std::string url;  // after redirects, without credentials
  Validators validators;
};

bool is_web_url(std::string_view text);  // http:// or https://

// The URL without user and password.
std::string without_credentials(std::string url);

// The text of gzip data (.gz), of all its members; other data as it is. Error: kInvalid
// "too_large", "bad_gzip".
Result<std::string> unpack_gzip(std::string data, std::uint64_t max_bytes);

// One request at a time. Verifies certificates, uses no proxy and keeps no cookies.
class Fetcher {
 public:
  explicit Fetcher(FetchOptions options);
  ~Fetcher();

  // Follows at most five redirects. Each address is checked when a connection to it is opened.
  // Errors: kUnavailable "not_fetched", with one sentence in the detail, without a full stop and
  // without credentials.
  Result<Document> fetch(const std::string& url, const Validators& validators);

 private:
  struct Transfer;
  struct Hop;
  Result<Hop> request(std::string url, const Validators& validators);

  FetchOptions options_;
  NetworkSet special_networks_;
  std::unique_ptr<Transfer> transfer_;
};

}  // namespace freshet::ctl
