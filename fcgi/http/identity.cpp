#include "fcgi/http/identity.h"

#include <arpa/inet.h>
#include <strings.h>

#include <cstring>

#include "fcgi/http/cors.h"

namespace freshet::http {
namespace {

constexpr std::string_view kVisitorCookie = "freshet_visitor";
constexpr std::string_view kSecureVisitorCookie = "__Host-freshet_visitor";
constexpr std::string_view kTokenCookie = "freshet_token";
constexpr std::string_view kSecureTokenCookie = "__Host-freshet_token";
constexpr std::string_view kBearer = "Bearer ";
constexpr std::size_t kRandomTextBytes = 22;  // 16 bytes as base64url

VisitorId make_visitor_id(char kind, std::string_view text) {
  std::string id;
  id.reserve(1 + text.size());
  return VisitorId::trusted(std::move(id.append(1, kind).append(text)));
}

// The token in an Authorization header. Schemes are case-insensitive (RFC 9110, section 11.1);
// schemes other than Bearer are ignored.
std::optional<std::string_view> bearer_token(std::string_view authorization) {
  if (authorization.size() < kBearer.size() ||
      strncasecmp(authorization.data(), kBearer.data(), kBearer.size()) != 0) {
    return std::nullopt;
  }
  return authorization.substr(kBearer.size());
}

}  // namespace

IdentityMode parse_identity_mode(std::string_view name) {
  if (name == "open") return IdentityMode::kOpen;
  if (name == "token") return IdentityMode::kToken;
  return IdentityMode::kHeader;
}

std::string_view cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const std::size_t end = header.find(';');
    std::string_view pair = header.substr(0, end);
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 1);
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    while (pair.ends_with(' ')) pair.remove_suffix(1);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
  }
  return {};
}

std::string subscriber_prefix(std::string_view address) {
  std::string text(address);
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return {bytes.data(), 4};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return text;
  in6_addr parsed{};
  std::memcpy(&parsed, bytes.data(), sizeof parsed);
  if (IN6_IS_ADDR_V4MAPPED(&parsed)) return {bytes.data() + 12, 4};
  return {bytes.data(), 8};
}

namespace {

std::string shortened_prefix(std::string_view address, std::size_t ipv4_bytes, std::size_t ipv6_bytes) {
  std::string prefix = subscriber_prefix(address);
  if (prefix.size() == 4) prefix.resize(ipv4_bytes);
  if (prefix.size() == 8) prefix.resize(ipv6_bytes);
  return prefix;
}

}  // namespace

std::string network_prefix(std::string_view address) { return shortened_prefix(address, 3, 6); }
std::string wide_network_prefix(std::string_view address) { return shortened_prefix(address, 2, 4); }

Result<Identity> Identity::create(IdentityMode mode, std::string_view salt,
                                  const std::map<std::string, std::string>& token_secrets,
                                  bool trusts_proxy) {
  FRESHET_TRY(hmac, Hmac::create(salt));
  FRESHET_TRY(tokens, TokenKeys::create(token_secrets));
  return Identity(mode, std::move(*hmac), std::move(*tokens), trusts_proxy);
}

Result<ReaderId> Identity::verify_reader(const Request& request, UnixSeconds now) {
  if (mode_ == IdentityMode::kHeader && !request.verified_user.empty()) {
    auto reader = ReaderId::parse(request.verified_user, "FRESHET_USER");
    if (!reader) return fail(ErrorCode::kUnauthorised, "bad_user", {}, reader.error().detail);
    return reader;
  }
  if (mode_ == IdentityMode::kToken) {
    if (const auto token = bearer_token(request.authorization)) return tokens_.verify(*token, now);
    const std::string_view cookie =
        cookie_value(request.cookie, is_over_tls(request) ? kSecureTokenCookie : kTokenCookie);
    if (auto reader = tokens_.verify(cookie, now)) return reader;
  }
  return ReaderId();
}

bool Identity::is_over_tls(const Request& request) const { return http::is_over_tls(request, trusts_proxy_); }

std::optional<VisitorId> Identity::visitor_from_cookie(const Request& request) {
  const std::string_view value =
      cookie_value(request.cookie, is_over_tls(request) ? kSecureVisitorCookie : kVisitorCookie);
  if (value.size() != 2 * kRandomTextBytes + 1 || value[kRandomTextBytes] != '.') return std::nullopt;
  const std::string_view random = value.substr(0, kRandomTextBytes);
  const std::string signature = truncated_base64url(salt_.compute_fields({"cookie", random}));
  if (!constant_time_equal(signature, value.substr(kRandomTextBytes + 1))) return std::nullopt;
  return make_visitor_id('c', random);
}

bool Identity::is_cookie_visitor(std::string_view visitor) {
  return visitor.size() == 1 + kRandomTextBytes && visitor.starts_with('c');
}

VisitorId Identity::visitor_for_reader(const ReaderId& reader) {
  if (is_anonymous_reader(reader)) return VisitorId::trusted(reader.str().substr(1));
  return make_visitor_id('u', truncated_base64url(salt_.compute_fields({"reader", reader.view()})));
}

std::string Identity::pseudonym(std::string_view kind, std::string_view owner, std::string_view id) {
  return truncated_base64url(salt_.compute_fields({kind, owner, id}));
}

std::string Identity::network_pseudonym(std::string_view address) {
  return pseudonym("network", {}, network_prefix(address));
}

std::string Identity::wide_network_pseudonym(std::string_view address) {
  return pseudonym("wide network", {}, wide_network_prefix(address));
}

std::string Identity::erasure_pseudonym(const ReaderId& reader) {
  return truncated_base64url(salt_.compute_fields({"epoch", reader.view()}));
}

Result<AuthResult> Identity::verify(const Request& request, UnixSeconds now) {
  FRESHET_TRY(reader, verify_reader(request, now));
  if (is_unset_id<ReaderId>(reader->view())) *reader = ReaderId();
  return AuthResult{std::move(*reader), visitor_from_cookie(request)};
}

Result<Principal> Identity::identify(const Request& request, const ClaimedIdentity& claim, UnixSeconds now) {
  FRESHET_TRY(verified, verify(request, now));
  return identify(request, *verified, claim);
}

Principal Identity::identify(const Request& request, const AuthResult& verified,
                             const ClaimedIdentity& claim) {
  Principal principal;
  const bool claimed = trusts_claims(request.zone) && !claim.reader.empty();
  principal.reader = claimed ? claim.reader : verified.reader;
  if (!principal.reader.empty()) {
    principal.stable_visitor = principal.visitor = visitor_for_reader(principal.reader);
    return principal;
  }
  if (verified.cookie) {
    principal.stable_visitor = principal.visitor = *verified.cookie;
    return principal;
  }
  principal.needs_cookie = true;
  const std::string address = subscriber_prefix(request.remote_addr);
  const auto anonymous = [&](std::string_view fingerprint) {
    return make_visitor_id(
        'a',
        truncated_base64url(salt_.compute_fields({"anonymous", fingerprint, request.user_agent, address})));
  };
  principal.visitor = anonymous(claim.fingerprint);
  principal.stable_visitor = claim.fingerprint.empty() ? principal.visitor : anonymous({});
  return principal;
}

namespace {
constexpr std::string_view kCookieAttributes = "; HttpOnly; SameSite=Lax";
}  // namespace

std::string Identity::expired_visitor_cookie(bool secure) {
  std::string out(secure ? kSecureVisitorCookie : kVisitorCookie);
  out.append("=; Path=/; Max-Age=0").append(kCookieAttributes);
  return secure ? out.append("; Secure") : out;
}

VisitorCookie Identity::issue_visitor_cookie(std::span<const unsigned char, 16> random, bool secure) {
  const std::string text = base64url({reinterpret_cast<const char*>(random.data()), random.size()});
  VisitorCookie cookie{make_visitor_id('c', text),
                       std::string(secure ? kSecureVisitorCookie : kVisitorCookie)};
  cookie.set_cookie.append("=").append(text).append(".").append(
      truncated_base64url(salt_.compute_fields({"cookie", text})));
  cookie.set_cookie.append("; Path=/; Max-Age=31536000").append(kCookieAttributes);
  if (secure) cookie.set_cookie.append("; Secure");
  return cookie;
}

}  // namespace freshet::http
