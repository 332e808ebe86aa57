#include "fcgi/http/identity.h"

#include <arpa/inet.h>
#include <strings.h>

#include <cstring>

namespace freshet::http {
namespace {

constexpr std::string_view kVisitorCookie = "freshet_visitor";
constexpr std::string_view kSecureVisitorCookie = "__Host-freshet_visitor";
constexpr std::string_view kTokenCookie = "freshet_token";
constexpr std::string_view kBearer = "Bearer ";
constexpr std::size_t kRandomText = 22;  // 16 bytes as base64url

VisitorId visitor(char kind, std::string_view text) {
  std::string id;
  id.reserve(1 + text.size());
  return VisitorId::trusted(std::move(id.append(1, kind).append(text)));
}

// A token in the Authorization header. Schemes are case-insensitive (RFC 9110, 11.1); others than
// Bearer are not ours.
std::optional<std::string_view> bearer(std::string_view authorization) {
  if (authorization.size() < kBearer.size() ||
      strncasecmp(authorization.data(), kBearer.data(), kBearer.size()) != 0) {
    return std::nullopt;
  }
  return authorization.substr(kBearer.size());
}

}  // namespace

IdentityMode identity_mode(std::string_view name) {
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

std::string address_class(std::string_view address) {
  std::string text(address);
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return {bytes.data(), 4};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return text;
  in6_addr parsed{};
  std::memcpy(&parsed, bytes.data(), sizeof parsed);
  if (IN6_IS_ADDR_V4MAPPED(&parsed)) return {bytes.data() + 12, 4};
  return {bytes.data(), 8};
}

std::string address_network(std::string_view address) {
  std::string network = address_class(address);
  if (network.size() == 4) network.resize(3);
  if (network.size() == 8) network.resize(6);
  return network;
}

Result<Identity> Identity::create(IdentityMode mode, std::string_view salt,
                                  const std::map<std::string, std::string>& token_secrets,
                                  bool believes_proxy) {
  FRESHET_TRY(hmac, Hmac::create(salt));
  FRESHET_TRY(tokens, TokenKeys::create(token_secrets));
  return Identity(mode, std::move(*hmac), std::move(*tokens), believes_proxy);
}

Result<ReaderId> Identity::verified_reader(const Request& request, UnixSeconds now) {
  if (mode_ == IdentityMode::kHeader && !request.verified_user.empty()) {
    auto reader = ReaderId::parse(request.verified_user, "FRESHET_USER");
    if (!reader) return fail(ErrorCode::kUnauthorised, "bad_user", {}, reader.error().detail);
    return reader;
  }
  if (mode_ == IdentityMode::kToken) {
    if (const auto token = bearer(request.authorization)) return tokens_.verify(*token, now);
    const std::string_view cookie = cookie_value(request.cookie, kTokenCookie);
    if (auto reader = tokens_.verify(cookie, now)) return reader;
  }
  return ReaderId();
}

bool Identity::over_tls(const Request& request) const {
  if (request.site.starts_with("https://")) return true;
  // Of several proxies the first is the client's.
  const std::string_view first = request.forwarded_proto.substr(0, request.forwarded_proto.find(','));
  return believes_proxy_ && first.size() == 5 && strncasecmp(first.data(), "https", first.size()) == 0;
}

std::optional<VisitorId> Identity::visitor_of_cookie(const Request& request) {
  const std::string_view value =
      cookie_value(request.cookie, over_tls(request) ? kSecureVisitorCookie : kVisitorCookie);
  if (value.size() != 2 * kRandomText + 1 || value[kRandomText] != '.') return std::nullopt;
  const std::string_view random = value.substr(0, kRandomText);
  const std::string signature = short_text(salt_.of_fields({"cookie", random}));
  if (!equal_in_constant_time(signature, value.substr(kRandomText + 1))) return std::nullopt;
  return visitor('c', random);
}

VisitorId Identity::visitor_of(const ReaderId& reader) {
  return visitor('u', short_text(salt_.of_fields({"reader", reader.view()})));
}

std::string Identity::key_name(std::string_view kind, std::string_view whose, std::string_view id) {
  return short_text(salt_.of_fields({kind, whose, id}));
}

std::string Identity::network_of(std::string_view address) {
  return key_name("network", {}, address_network(address));
}

std::string Identity::epoch_name(const ReaderId& reader) {
  return short_text(salt_.of_fields({"epoch", reader.view()}));
}

Result<Verified> Identity::verify(const Request& request, UnixSeconds now) {
  FRESHET_TRY(reader, verified_reader(request, now));
  if (!reader->empty()) return Verified{std::move(*reader), std::nullopt};
  return Verified{{}, visitor_of_cookie(request)};
}

Result<Who> Identity::identify(const Request& request, const Claim& claim, UnixSeconds now) {
  FRESHET_TRY(verified, verify(request, now));
  return identify(request, *verified, claim);
}

Who Identity::identify(const Request& request, const Verified& verified, const Claim& claim) {
  Who who;
  const bool claimed = believes_claims(request.zone) && !claim.reader.empty();
  who.reader = claimed ? claim.reader : verified.reader;
  if (!who.reader.empty()) {
    who.counted_as = who.visitor = visitor_of(who.reader);
    return who;
  }
  if (verified.cookie) {
    who.counted_as = who.visitor = *verified.cookie;
    return who;
  }
  who.without_cookie = true;
  const std::string address = address_class(request.remote_addr);
  const auto anonymous = [&](std::string_view fingerprint) {
    return visitor('a', short_text(salt_.of_fields({"anonymous", fingerprint, request.user_agent, address})));
  };
  who.visitor = anonymous(claim.fingerprint);
  who.counted_as = claim.fingerprint.empty() ? who.visitor : anonymous({});
  return who;
}

VisitorCookie Identity::new_visitor(std::span<const unsigned char, 16> random, bool secure) {
  const std::string text = base64url({reinterpret_cast<const char*>(random.data()), random.size()});
  VisitorCookie cookie{visitor('c', text), std::string(secure ? kSecureVisitorCookie : kVisitorCookie)};
  cookie.set_cookie.append("=").append(text).append(".").append(
      short_text(salt_.of_fields({"cookie", text})));
  cookie.set_cookie.append("; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax");
  if (secure) cookie.set_cookie.append("; Secure");
  return cookie;
}

}  // namespace freshet::http
