#include "scripts/ctl/http/fetch.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "scripts/ctl/http/curl_handle.h"

namespace freshet::ctl {
namespace {

constexpr int kMaxRedirects = 5;
constexpr long kConnectTimeoutMs = 10'000;
constexpr const char* kSchemes = "http,https";

// Networks of RFC 6890 that are not on the Internet, multicast, and IPv6 networks that embed such
// IPv4 addresses.
const std::vector<std::string> kSpecialNetworks{
    "0.0.0.0/8",    "10.0.0.0/8",     "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",    "::/127",
    "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",      "2001::/32",   "2002::/16",      "fc00::/7",
    "fe80::/10",    "fec0::/10",      "ff00::/8"};

std::string address_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = address.sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return inet_ntop(address.sa_family, bytes, text.data(), text.size()) != nullptr ? text.data() : "";
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// In lower case, without brackets; empty if `url` has none.
std::string host_of(const std::string& url) {
  std::string out = url_part(url, CURLUPART_HOST).value_or("");
  if (out.starts_with('[') && out.ends_with(']')) out = out.substr(1, out.size() - 2);
  return in_lower_case(out);
}

// The place of the authority (user:password@host:port) in a URL.
std::pair<std::size_t, std::size_t> authority_of(std::string_view url) {
  const std::size_t colon = url.find("://");
  const std::size_t begin =
      colon == std::string_view::npos ? url.size() : url.find_first_not_of('/', colon + 1);
  if (begin >= url.size()) return {url.size(), url.size()};
  return {begin, std::min(url.find_first_of("/?#", begin), url.size())};
}

// "user:password@"; empty if the URL has none.
std::string_view credentials_of(std::string_view url) {
  const auto [begin, end] = authority_of(url);
  const std::string_view authority = url.substr(begin, end - begin);
  const std::size_t at = authority.rfind('@');
  return at == std::string_view::npos ? std::string_view() : authority.substr(0, at + 1);
}

// "https://example.org:8443", in lower case.
std::string origin_of(const std::string& url) {
  const std::string plain = without_credentials(url);
  return in_lower_case(plain.substr(0, authority_of(plain).second));
}

tl::unexpected<Error> not_fetched(const std::string& url, const std::string& why) {
  return fail(ErrorCode::kUnavailable, "not_fetched", {}, without_credentials(url) + ": " + why);
}

std::string too_large(std::uint64_t max_bytes) {
  return fmt::format("larger than {} bytes; --max-bytes allows more", max_bytes);
}

std::string describe_status(long status) {
  if (status == 404 || status == 410) return fmt::format("there is nothing at this address ({})", status);
  if (status >= 500) return fmt::format("the server has an error ({})", status);
  if (status == 401 || status == 403) return fmt::format("the server denies access ({})", status);
  return fmt::format("the server returned {}", status);
}

}  // namespace

struct Fetcher::Transfer {
  CurlHandle curl = make_curl_handle();
  // State of the current request:
  const NetworkSet* refused_networks = nullptr;  // null: none
  std::uint64_t max_bytes = 0;
  std::string body;
  bool is_too_large = false, has_headers = false;
  std::string refused_address;
  std::array<char, CURL_ERROR_SIZE> curl_message{};

  static curl_socket_t open_socket(void* self, curlsocktype, curl_sockaddr* address) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string text = address_text(address->addr);
    if (transfer.refused_networks != nullptr && (text.empty() || transfer.refused_networks->contains(text))) {
      transfer.refused_address = text;
      return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }
  static std::size_t take_header(char* line, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.has_headers = ends_headers({line, size}, transfer.has_headers);
    return size;
  }
  static std::size_t take_body(char* data, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.is_too_large = transfer.body.size() + size > transfer.max_bytes;
    if (transfer.is_too_large) return 0;
    transfer.body.append(data, size);
    return size;
  }

  std::string describe(CURLcode code, const std::string& host) const {
    if (!refused_address.empty())
      return fmt::format("{} has the address {}, which is not public; name the host in `hosts` to allow it",
                         host, refused_address);
    if (is_too_large || code == CURLE_FILESIZE_EXCEEDED) return too_large(max_bytes);
    switch (code) {
      case CURLE_PEER_FAILED_VERIFICATION:
        return fmt::format("the certificate is not valid ({})", curl_message.data());
      case CURLE_OPERATION_TIMEDOUT:
        return "no complete answer in time";
      case CURLE_COULDNT_RESOLVE_HOST:
        return fmt::format("the host {} is unknown", host);
      case CURLE_OK:
      case CURLE_PARTIAL_FILE:
      case CURLE_GOT_NOTHING:
        return "the answer was cut short";
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_URL_MALFORMAT:
        return "not an http or https URL";
      case CURLE_BAD_CONTENT_ENCODING:
      case CURLE_WRITE_ERROR:
        return "the compressed answer is damaged";
      default:
        break;
    }
    long error = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_OS_ERRNO, &error);
    if (error != 0) return std::strerror(static_cast<int>(error));
    return curl_message[0] != 0 ? curl_message.data() : curl_easy_strerror(code);
  }
};

struct Fetcher::Hop {
  long status = 0;
  std::string location;  // absolute; empty unless it redirects
};

bool is_web_url(std::string_view text) {
  const auto starts = [&](std::string_view scheme) {
    return text.size() > scheme.size() && std::ranges::equal(text.substr(0, scheme.size()), scheme, {},
                                                             [](unsigned char c) { return std::tolower(c); });
  };
  return starts("http://") || starts("https://");
}

std::string without_credentials(std::string url) {
  url.erase(authority_of(url).first, credentials_of(url).size());
  return url;
}

Result<std::string> unpack_gzip(std::string data, std::uint64_t max_bytes) {
  if (!data.starts_with("\x1f\x8b")) return data;
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owned(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  std::string out;
  std::array<char, 65536> block;
  const auto is_padding = [&] {
    return std::all_of(stream.next_in, stream.next_in + stream.avail_in,
                       [](Bytef byte) { return byte == 0; });
  };
  for (int state = Z_OK; state != Z_STREAM_END || !is_padding();) {
    if (state == Z_STREAM_END) inflateReset(&stream);  // the next member
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    state = inflate(&stream, Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END)
      return fail(ErrorCode::kInvalid, "bad_gzip", {}, "the compressed data is damaged or cut short");
    out.append(block.data(), block.size() - stream.avail_out);
    if (out.size() > max_bytes) return fail(ErrorCode::kInvalid, "too_large", {}, too_large(max_bytes));
  }
  return out;
}

Fetcher::Fetcher(FetchOptions options)
    : options_(std::move(options)),
      special_networks_(std::move(*NetworkSet::parse(kSpecialNetworks))),
      transfer_(std::make_unique<Transfer>()) {
  std::ranges::transform(options_.allowed_hosts, options_.allowed_hosts.begin(), in_lower_case);
}
Fetcher::~Fetcher() = default;

Result<Fetcher::Hop> Fetcher::request(std::string url, const Validators& validators) {
  if (credentials_of(url).empty() && origin_of(url) == origin_of(options_.credentials))
    url.insert(authority_of(url).first, credentials_of(options_.credentials));
  Transfer& transfer = *transfer_;
  CURL* const curl = transfer.curl.get();
  curl_easy_reset(curl);
  const std::string host = host_of(url);
  const bool is_exempt = !options_.public_only ||
                         std::ranges::find(options_.allowed_hosts, host) != options_.allowed_hosts.end();
  transfer.refused_networks = is_exempt ? nullptr : &special_networks_;
  transfer.max_bytes = options_.max_bytes;
  transfer.body.clear();
  transfer.is_too_large = transfer.has_headers = false;
  transfer.refused_address.clear();
  transfer.curl_message[0] = 0;

  CurlHeaders headers;
  headers.add("Accept", "*/*");
  if (!validators.etag.empty()) headers.add("If-None-Match", validators.etag);
  if (!validators.last_modified.empty()) headers.add("If-Modified-Since", validators.last_modified);
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, kSchemes);
  set(CURLOPT_USERAGENT, "freshetctl/" FRESHET_VERSION);
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_PROXY, "");  // its address would be checked instead of the host's
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
  set(CURLOPT_ACCEPT_ENCODING, "gzip");
  set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(options_.max_bytes));
  set(CURLOPT_ERRORBUFFER, transfer.curl_message.data());
  set(CURLOPT_FRESH_CONNECT, 1L);  // so that each address is checked for the host of this request
  set(CURLOPT_OPENSOCKETFUNCTION, Transfer::open_socket);
  set(CURLOPT_OPENSOCKETDATA, &transfer);
  set(CURLOPT_HEADERFUNCTION, Transfer::take_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, Transfer::take_body);
  set(CURLOPT_WRITEDATA, &transfer);

  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK || !transfer.has_headers) return not_fetched(url, transfer.describe(code, host));
  Hop hop;
  char* location = nullptr;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &hop.status);
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) hop.location = location;
  return hop;
}

Result<Document> Fetcher::fetch(const std::string& url, const Validators& validators) {
  Document out;
  out.url = url;
  std::set<std::string> visited;
  while (true) {
    if (!is_web_url(out.url)) return not_fetched(out.url, "not an http or https URL");
    if (!visited.insert(out.url).second) return not_fetched(url, "redirects in a loop");
    if (visited.size() > kMaxRedirects + 1)
      return not_fetched(url, fmt::format("more than {} redirects", kMaxRedirects));
    FRESHET_TRY(hop, request(out.url, validators));
    if (!hop->location.empty()) {
      out.url = hop->location;
      continue;
    }
    const bool was_conditional = validators != Validators();
    out.unchanged = hop->status == 304 && was_conditional;
    if (hop->status != 200 && !out.unchanged) return not_fetched(out.url, describe_status(hop->status));
    break;
  }
  out.validators = {response_header(transfer_->curl.get(), "ETag"),
                    response_header(transfer_->curl.get(), "Last-Modified")};
  auto text = unpack_gzip(std::move(transfer_->body), options_.max_bytes);
  if (!text) return not_fetched(out.url, text.error().detail);
  out.body = std::move(*text);
  out.url = without_credentials(std::move(out.url));
  return out;
}

}  // namespace freshet::ctl
