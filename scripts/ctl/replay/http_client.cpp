#include "scripts/ctl/replay/http_client.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <optional>

#include "fcgi/http/signature.h"

namespace freshet::ctl {
namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using boost::system::error_code;

namespace {

constexpr milliseconds kBacklogPause{5};

Result<std::string> strip_brackets(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return fail(ErrorCode::kInvalid, "bad_url");
  return std::string(host);
}

std::string host_header(const std::string& host) {
  if (host.empty()) return "localhost";
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

std::string describe(const error_code& error) {
  if (error == http::error::end_of_stream || error == http::error::partial_message)
    return "the reply was cut short";
  if (error == http::error::body_limit) return "the reply is too large";
  if (error == boost::beast::error::timeout) return "the reply did not arrive in time";
  return error.message();
}

bool begins_with(std::string_view body, std::string_view start) {
  const std::size_t both = std::min(body.size(), start.size());
  return body.substr(0, both) == start.substr(0, both);
}

// Beast's string_view is std's in Boost 1.81 and its own in 1.74.
boost::beast::string_view beast_view(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Result<HttpAddress> parse_http_url(std::string_view url) {
  const auto bad = [&] {
    return fail(ErrorCode::kInvalid, "bad_url", {},
                std::string(url) + " is neither http://host:port nor unix:///path");
  };
  HttpAddress out;
  out.display_url = url;
  constexpr std::string_view kUnix = "unix://", kHttp = "http://";
  if (url.starts_with(kUnix)) {
    out.unix_path = url.substr(kUnix.size());
    if (!out.unix_path.starts_with('/')) return bad();
    return out;
  }
  if (!url.starts_with(kHttp)) return bad();
  url.remove_prefix(kHttp.size());
  if (url.ends_with('/')) url.remove_suffix(1);
  if (url.find_first_of("/?#@ ") != std::string_view::npos) return bad();
  const std::size_t bracket = url.rfind(']');
  const std::size_t colon = url.find(':', bracket == std::string_view::npos ? 0 : bracket);
  auto host = strip_brackets(url.substr(0, colon));
  if (!host) return bad();
  out.host = std::move(*host);
  out.port = colon == std::string_view::npos ? "80" : std::string(url.substr(colon + 1));
  if (out.port.empty() || out.port.find_first_not_of("0123456789") != std::string::npos) return bad();
  return out;
}

struct HttpConnection::Wire {
  using Stream = boost::beast::basic_stream<asio::generic::stream_protocol>;

  Wire(asio::any_io_executor executor, const HttpAddress& where, milliseconds limit)
      : address(where), timeout(limit), stream(executor) {
    if (address.key_id.empty()) return;
    auto made = freshet::http::SignatureKeys::create({{address.key_id, address.key}});
    if (made) signatures.emplace(std::move(*made));  // the key was validated by http_address()
  }

  asio::awaitable<error_code> connect();
  asio::awaitable<error_code> connect_to(asio::generic::stream_protocol::endpoint endpoint);
  void close();
  // Detects a connection that the server has closed already. It may still close one at any later
  // time.
  bool is_alive();

  const HttpAddress& address;
  const milliseconds timeout;
  Stream stream;
  boost::beast::flat_buffer buffer;
  std::optional<freshet::http::SignatureKeys> signatures;
};

HttpConnection::HttpConnection(asio::any_io_executor executor, const HttpAddress& address,
                               milliseconds timeout)
    : wire_(std::make_unique<Wire>(std::move(executor), address, timeout)) {}
HttpConnection::~HttpConnection() = default;
HttpConnection::HttpConnection(HttpConnection&&) noexcept = default;

void HttpConnection::Wire::close() {
  error_code ignored;
  stream.socket().close(ignored);
  buffer.clear();
}

bool HttpConnection::Wire::is_alive() {
  if (!stream.socket().is_open()) return false;
  char byte = 0;
  const ssize_t got = recv(stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

asio::awaitable<error_code> HttpConnection::Wire::connect_to(
    asio::generic::stream_protocol::endpoint endpoint) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    close();
    error_code error;
    stream.expires_at(deadline);
    co_await stream.async_connect(endpoint, redirect_error(use_awaitable, error));
    // A unix socket with a full backlog returns EAGAIN, which Asio treats as a connection in
    // progress.
    if (!error) stream.socket().remote_endpoint(error);
    if (!error) break;
    if (error != asio::error::not_connected || std::chrono::steady_clock::now() >= deadline) {
      close();
      co_return error;
    }
    asio::steady_timer pause(stream.get_executor(), kBacklogPause);
    co_await pause.async_wait(redirect_error(use_awaitable, error));
  }
  error_code ignored;
  if (address.unix_path.empty()) stream.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  co_return error_code();
}

asio::awaitable<error_code> HttpConnection::Wire::connect() {
  if (!address.unix_path.empty()) {
    if (address.unix_path.size() >= 108) co_return asio::error::name_too_long;
    co_return co_await connect_to(asio::local::stream_protocol::endpoint(address.unix_path));
  }
  error_code error;
  asio::ip::tcp::resolver resolver(stream.get_executor());
  const auto found =
      co_await resolver.async_resolve(address.host, address.port, redirect_error(use_awaitable, error));
  for (const auto& each : found) {
    error = co_await connect_to(each.endpoint());
    if (!error) break;
  }
  co_return error;
}

asio::awaitable<Result<HttpReply>> HttpConnection::exchange(const HttpRequest& request) {
  Wire& wire = *wire_;
  if (!wire.is_alive()) {
    if (const error_code error = co_await wire.connect()) {
      co_return fail(ErrorCode::kUnavailable, "no_connection", {},
                     wire.address.display_url + ": " + error.message());
    }
  }
  http::request<http::string_body> message(http::string_to_verb(beast_view(request.method)), request.path, 11,
                                           request.body);
  message.set(http::field::host, host_header(wire.address.host));
  if (!request.user_agent.empty()) message.set(http::field::user_agent, beast_view(request.user_agent));
  if (!request.if_none_match.empty()) message.set(http::field::if_none_match, request.if_none_match);
  if (!request.body.empty()) message.set(http::field::content_type, beast_view(request.content_type));
  if (wire.signatures) {
    FRESHET_CO_TRY(
        signature,
        wire.signatures->sign(wire.address.key_id, {request.method, request.path, request.body}, wall_now()));
    message.set(http::field::authorization, *signature);
  }
  if (request.method != "GET") message.prepare_payload();

  error_code error;
  http::response_parser<http::string_body> parser;
  parser.body_limit(request.max_reply_bytes);
  wire.stream.expires_after(wire.timeout);
  co_await http::async_write(wire.stream, message, redirect_error(use_awaitable, error));
  if (!error)
    co_await http::async_read_header(wire.stream, wire.buffer, parser, redirect_error(use_awaitable, error));
  // Before the parser allocates as much as the server claims to send.
  if (!error && parser.content_length().value_or(0) > request.max_reply_bytes)
    error = http::error::body_limit;
  const auto is_expected = [&] { return begins_with(parser.get().body(), request.expected_prefix); };
  while (!error && !parser.is_done() && is_expected())
    co_await http::async_read_some(wire.stream, wire.buffer, parser, redirect_error(use_awaitable, error));
  if (error) {
    wire.close();
    co_return fail(ErrorCode::kUnknownOutcome, "no_reply", {},
                   wire.address.display_url + ": " + describe(error));
  }
  if (!parser.is_done() || !parser.get().keep_alive()) wire.close();
  const auto etag = parser.get()[http::field::etag];
  co_return HttpReply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body()),
                      std::string(etag.data(), etag.size())};
}

BlockingHttp::BlockingHttp(HttpAddress address, milliseconds timeout)
    : address_(std::move(address)), connection_(io_.get_executor(), address_, timeout) {}

Result<HttpReply> BlockingHttp::exchange(const HttpRequest& request) {
  std::optional<Result<HttpReply>> reply;
  asio::co_spawn(
      io_, [&]() -> asio::awaitable<void> { reply.emplace(co_await connection_.exchange(request)); },
      asio::detached);
  io_.restart();
  io_.run();
  return std::move(*reply);
}

}  // namespace freshet::ctl
