// HTTP/1.1 client with persistent connections, over TCP or a unix socket.
#pragma once

#include <utility>  // required by awaitable.hpp of Boost 1.74

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
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
};
struct HttpReply {
  int status = 0;
  std::string body;
  std::string etag;  // empty if the reply has none
};

// One connection, opened on first use and reopened after an error or after the server closed it.
// One request at a time.
class HttpConnection {
 public:
  // `timeout` applies to connecting and to each exchange. `address` must outlive this.
  HttpConnection(boost::asio::any_io_executor executor, const HttpAddress& address, milliseconds timeout);
  ~HttpConnection();
  HttpConnection(HttpConnection&&) noexcept;

  // Errors: kUnavailable "no_connection": nothing was sent; kUnknownOutcome "no_reply": sent, but
  // no reply arrived.
  boost::asio::awaitable<Result<HttpReply>> exchange(const HttpRequest& request);

 private:
  struct Wire;
  std::unique_ptr<Wire> wire_;
};

// Blocking exchange().
class BlockingHttp {
 public:
  BlockingHttp(HttpAddress address, milliseconds timeout);
  Result<HttpReply> exchange(const HttpRequest& request);
  const HttpAddress& address() const { return address_; }

 private:
  const HttpAddress address_;
  boost::asio::io_context io_;
  HttpConnection connection_;
};

}  // namespace freshet::ctl
