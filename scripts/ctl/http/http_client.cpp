#include "scripts/ctl/http/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "core/base/secret.h"
#include "fcgi/http/signature.h"
#include "scripts/ctl/http/curl_handle.h"

namespace freshet::ctl {

namespace {

constexpr milliseconds kBacklogPause{5};

Result<std::string> strip_brackets(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return fail(ErrorCode::kInvalid, "bad_url");
  return std::string(host);
}

std::string url_of(const HttpAddress& address, const std::string& path) {
  if (!address.unix_path.empty()) return "http://localhost" + path;
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + address.host + "]" : address.host) + ":" + address.port + path;
}

bool begins_with(std::string_view body, std::string_view start) {
  const std::size_t both = std::min(body.size(), start.size());
  return body.substr(0, both) == start.substr(0, both);
}

long os_error(CURL* curl) {
  long error = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
  return error;
}

// connect() to a unix socket with a full backlog returns EAGAIN. curl waits for the connection and
// reports the failure without an errno.
bool is_backlog_full(const HttpAddress& address, CURL* curl, CURLcode code) {
  if (address.unix_path.empty() || code != CURLE_COULDNT_CONNECT) return false;
  const long error = os_error(curl);
  return error == 0 || error == EAGAIN || error == EINPROGRESS;
}

}  // namespace

Result<HttpAddress> parse_http_url(std::string_view url) {
  HttpAddress out;
  out.display_url = redact_credentials(url);
  const auto bad = [&] {
    return fail(ErrorCode::kInvalid, "bad_url", {},
                out.display_url + " is neither http://host:port nor unix:///path");
  };
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

struct HttpClient::Transfer {
  CurlHandle curl;
  std::optional<http::SignatureKeys> signatures;
  // State of the current exchange:
  const HttpRequest* request = nullptr;
  std::size_t sent = 0;        // bytes of the body that curl has taken
  std::uint64_t received = 0;  // bytes of the reply's body
  HttpReply reply;
  bool has_headers = false, is_too_large = false, is_unexpected = false;
  std::array<char, CURL_ERROR_SIZE> curl_message;

  std::string describe(CURLcode code) const;
};

namespace {

// curl repeats a request if the server closes a kept connection without a reply. The server may
// have processed it: a body is not sent again.
int refuse_rewind(void*, curl_off_t, int) { return CURL_SEEKFUNC_FAIL; }

template <class Transfer>
std::size_t read_body(char* to, std::size_t, std::size_t space, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::string& body = transfer.request->body;
  const std::size_t size = body.copy(to, space, transfer.sent);
  transfer.sent += size;
  return size;
}

template <class Transfer>
std::size_t take_header(char* line, std::size_t, std::size_t size, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.has_headers = ends_headers({line, size}, transfer.has_headers);
  return size;
}

template <class Transfer>
std::size_t take_body(char* data, std::size_t, std::size_t size, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const HttpRequest& request = *transfer.request;
  transfer.received += size;
  transfer.is_too_large = transfer.received > request.max_reply_bytes;
  if (transfer.is_too_large) return 0;
  std::string_view start = request.expected_prefix;
  long status = 0;
  curl_easy_getinfo(transfer.curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (request.receive_body && status == 200) {
    if (!request.receive_body({data, size})) return 0;
    start = start.substr(std::min<std::size_t>(start.size(), transfer.received - size));
    transfer.is_unexpected = !begins_with({data, size}, start);
    return transfer.is_unexpected ? 0 : size;
  }
  transfer.reply.body.append(data, size);
  transfer.is_unexpected = !begins_with(transfer.reply.body, start);
  return transfer.is_unexpected ? 0 : size;
}

}  // namespace

std::string HttpClient::Transfer::describe(CURLcode code) const {
  if (is_too_large || code == CURLE_FILESIZE_EXCEEDED) return "the reply is too large";
  if (code == CURLE_OPERATION_TIMEDOUT) return "the reply did not arrive in time";
  if (code == CURLE_OK || code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING ||
      code == CURLE_SEND_FAIL_REWIND)
    return "the reply was cut short";
  if (const long error = os_error(curl.get()); error != 0) return std::strerror(static_cast<int>(error));
  return curl_message[0] != 0 ? curl_message.data() : curl_easy_strerror(code);
}

HttpClient::HttpClient(HttpAddress address, milliseconds timeout)
    : address_(std::move(address)), timeout_(timeout), transfer_(std::make_unique<Transfer>()) {
  transfer_->curl = make_curl_handle();
  if (address_.key_id.empty()) return;
  auto made = http::SignatureKeys::create({{address_.key_id, address_.key}});
  if (made) transfer_->signatures.emplace(std::move(*made));  // the key was validated by http_address()
}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

Result<HttpReply> HttpClient::exchange(const HttpRequest& request) {
  Transfer& transfer = *transfer_;
  CURL* const curl = transfer.curl.get();
  curl_easy_reset(curl);  // keeps the connection
  transfer.request = &request;
  transfer.sent = transfer.received = 0;
  transfer.reply = {};
  transfer.has_headers = transfer.is_too_large = transfer.is_unexpected = false;
  transfer.curl_message[0] = 0;

  CurlHeaders headers;
  headers.add("Expect", "");
  headers.add("Accept", "");
  if (!request.user_agent.empty()) headers.add("User-Agent", request.user_agent);
  if (!request.if_none_match.empty()) headers.add("If-None-Match", request.if_none_match);
  if (request.method != "GET") headers.add("Content-Type", request.body.empty() ? "" : request.content_type);
  if (transfer.signatures) {
    FRESHET_TRY(signature, transfer.signatures->sign(
                               address_.key_id, {request.method, request.path, request.body}, wall_now()));
    headers.add("Authorization", *signature);
  }
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, url_of(address_, request.path).c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, transfer.curl_message.data());
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_.count()));
  set(CURLOPT_HTTPHEADER, headers.get());
  if (!address_.unix_path.empty()) set(CURLOPT_UNIX_SOCKET_PATH, address_.unix_path.c_str());
  if (request.method != "GET") {
    const std::string method(request.method);
    set(CURLOPT_POST, 1L);
    set(CURLOPT_CUSTOMREQUEST, method.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_READFUNCTION, read_body<Transfer>);
    set(CURLOPT_READDATA, &transfer);
    set(CURLOPT_SEEKFUNCTION, refuse_rewind);
  }
  // Refuses a longer body before any of it arrives, if the server names its length.
  set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(request.max_reply_bytes));
  set(CURLOPT_HEADERFUNCTION, take_header<Transfer>);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, take_body<Transfer>);
  set(CURLOPT_WRITEDATA, &transfer);

  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  CURLcode code = curl_easy_perform(curl);
  while (is_backlog_full(address_, curl, code)) {
    std::this_thread::sleep_for(kBacklogPause);
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) break;
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(left));
    code = curl_easy_perform(curl);
  }
  const bool is_complete = (code == CURLE_OK && transfer.has_headers) || transfer.is_unexpected;
  if (!is_complete) {
    long sent = 0;
    curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
    const std::string why = address_.display_url + ": " + transfer.describe(code);
    transfer.curl = make_curl_handle();  // curl 8 would fail again after a refused rewind
    if (sent == 0) return fail(ErrorCode::kUnavailable, "no_connection", {}, why);
    return fail(ErrorCode::kUnknownOutcome, "no_reply", {}, why);
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  transfer.reply.status = static_cast<int>(status);
  transfer.reply.etag = response_header(curl, "ETag");
  return std::move(transfer.reply);
}

}  // namespace freshet::ctl
