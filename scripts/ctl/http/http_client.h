// HTTP/1.1 client of Freshet's internal server, over TCP or a unix socket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

struct HttpAddress {
  std::string unix_path;    // set for a unix socket, else empty
  std::string host, port;   // of TCP
  std::string display_url;  // the URL, for messages
  // Key from identity.internal_keys that signs the requests. Empty: unsigned.
  std::string key_id, key;
};

// Parses http://host[:port] (default port 80) or unix:///path/to.sock. Errors: kInvalid "bad_url".
Result<HttpAddress> parse_http_url(std::string_view url);

struct HttpRequest {
  std::string_view method = "GET";
  std::string path;
  std::string body;
  std::string_view content_type = "application/json";
  std::string_view user_agent;
  std::string if_none_match;                  // an ETag; empty: unconditional
  std::uint64_t max_reply_bytes = 64U << 20;  // a longer body is an error, "no_reply"
  // Required prefix of the body. If the body differs, exchange() stops reading, closes the
  // connection and returns what has arrived, without an error.
  std::string_view expected_prefix;
  // Receives the body of a reply with status 200 as it arrives; then HttpReply::body is empty. If
  // it returns false, exchange() fails. It must not throw.
  std::function<bool(std::string_view)> receive_body;
};
struct HttpReply {
  int status = 0;
  std::string body;
  std::string etag;  // empty if the reply has none
};

// One connection, opened on first use and reopened after an error or after the server closed it.
// Blocking. Uses no proxy. Not thread-safe.
class HttpClient {
 public:
  // `timeout` applies to an exchange, including connecting.
  HttpClient(HttpAddress address, milliseconds timeout);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  // Sends a body at most once. Errors: kUnavailable "no_connection": nothing was sent;
  // kUnknownOutcome "no_reply": sent, but no reply arrived.
  Result<HttpReply> exchange(const HttpRequest& request);
  const HttpAddress& address() const { return address_; }

 private:
  struct Transfer;

  const HttpAddress address_;
  const milliseconds timeout_;
  std::unique_ptr<Transfer> transfer_;
};

}  // namespace freshet::ctl
