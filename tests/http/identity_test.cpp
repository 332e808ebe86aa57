#include "fcgi/http/identity.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <set>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::http;

namespace {

const UnixSeconds kNow{seconds{1772798400}};
constexpr std::string_view kSalt = "a salt of enough bytes";
constexpr std::array<unsigned char, 16> kRandom{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

Identity make_identity(IdentityMode mode) {
  auto made = Identity::create(mode, kSalt, {{"k1", "0123456789abcdef"}});
  REQUIRE(made);
  return std::move(*made);
}

ClaimedIdentity claim_for(const std::string& reader, std::string_view fingerprint = {}) {
  return {ReaderId::trusted(reader), fingerprint};
}

Principal identify(Identity& identity, const Request& request, const ClaimedIdentity& claim = {}) {
  auto result = identity.identify(request, claim, kNow);
  REQUIRE(result);
  CHECK(parse_id(result->visitor.view(), "visitor"));
  CHECK(result->visitor.view().size() == 23);
  return *result;
}

std::string visitor_at(Identity& identity, std::string_view address, std::string_view agent = "UA",
                       std::string_view fingerprint = "f") {
  return identify(identity, {.remote_addr = address, .user_agent = agent}, {{}, fingerprint}).visitor.str();
}

std::string cookie_of(const VisitorCookie& cookie) {
  return cookie.set_cookie.substr(0, cookie.set_cookie.find(';'));
}

}  // namespace

TEST_CASE("header mode trusts what auth_request found and nothing else", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  CHECK(identify(header, {.verified_user = "alice"}).reader.str() == "alice");
  CHECK(identify(header, {}).reader.empty());
  CHECK(identify(header, {.verified_user = "0"}).needs_cookie);  // WordPress' user who is not logged in
  CHECK(identify(header, {.authorization = "Bearer v1.k1.alice.9.x"}).reader.empty());
  CHECK(identify(header, {}, claim_for("mallory")).reader.empty());
  CHECK(identify(header, {.verified_user = "alice"}, claim_for("mallory")).reader.str() == "alice");
}

TEST_CASE("a verified user that is not a valid id is an error rather than anonymous", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const auto result = header.identify({.verified_user = "a\tb"}, {}, kNow);
  REQUIRE_FALSE(result);
  CHECK(error_of(result).code == ErrorCode::kUnauthorised);
  CHECK(error_of(result).reason == "bad_user");
}

TEST_CASE("token mode trusts signed tokens, the header before the cookie", "[identity]") {
  Identity token = make_identity(IdentityMode::kToken);
  const std::string alice = token.tokens().sign("k1", ReaderId::trusted("alice"), kNow + seconds{9}).value();
  const std::string bob = token.tokens().sign("k1", ReaderId::trusted("bob"), kNow + seconds{9}).value();
  const std::string bearer = "Bearer " + alice;
  const std::string lower = "bearer " + alice;
  const std::string cookie = "x=1; freshet_token=" + bob;
  CHECK(identify(token, {.authorization = bearer}).reader.str() == "alice");
  CHECK(identify(token, {.authorization = lower}).reader.str() == "alice");
  CHECK(identify(token, {.cookie = cookie}).reader.str() == "bob");
  CHECK(identify(token, {.cookie = cookie, .authorization = bearer}).reader.str() == "alice");
  CHECK(identify(token, {.verified_user = "mallory"}).reader.empty());
  CHECK(identify(token, {.authorization = bearer}, claim_for("mallory")).reader.str() == "alice");
}

TEST_CASE("over TLS only the token cookie that other hosts cannot set counts", "[identity]") {
  Identity token = make_identity(IdentityMode::kToken);
  const std::string alice = token.tokens().sign("k1", ReaderId::trusted("alice"), kNow + seconds{9}).value();
  const std::string plain = "freshet_token=" + alice, secure = "__Host-freshet_token=" + alice;
  CHECK(identify(token, {.cookie = secure, .site = "https://hot.example"}).reader.str() == "alice");
  CHECK(identify(token, {.cookie = plain, .site = "https://hot.example"}).reader.empty());
  CHECK(identify(token, {.cookie = plain, .site = "http://hot.example"}).reader.str() == "alice");
  CHECK(identify(token, {.cookie = secure, .site = "http://hot.example"}).reader.empty());
}

TEST_CASE("an invalid bearer token is an error, an invalid cookie is ignored", "[identity]") {
  Identity token = make_identity(IdentityMode::kToken);
  const std::string stale = token.tokens().sign("k1", ReaderId::trusted("bob"), kNow).value();
  const std::string bearer = "Bearer " + stale;
  const std::string cookie = "freshet_token=" + stale;
  CHECK(error_of(token.identify({.authorization = bearer}, {}, kNow)).reason == "expired_token");
  CHECK(error_of(token.identify({.authorization = "Bearer x"}, {}, kNow)).reason == "bad_token");
  CHECK(identify(token, {.cookie = cookie}).reader.empty());
  CHECK(identify(token, {.authorization = "Basic YTpi"}).reader.empty());
}

TEST_CASE("open mode trusts claims, in either zone", "[identity]") {
  Identity open = make_identity(IdentityMode::kOpen);
  CHECK(identify(open, {.zone = Zone::kPublic}, claim_for("alice")).reader.str() == "alice");
  CHECK(identify(open, {.zone = Zone::kInternal}, claim_for("alice")).reader.str() == "alice");
  CHECK(identify(open, {.authorization = "Bearer x", .verified_user = "x"}).reader.empty());
}

TEST_CASE("the internal server trusts claims in every mode, the public one only in open mode", "[identity]") {
  for (const auto mode : {IdentityMode::kHeader, IdentityMode::kToken, IdentityMode::kOpen}) {
    Identity any = make_identity(mode);
    CHECK(identify(any, {.zone = Zone::kInternal, .verified_user = "bob"}, claim_for("alice")).reader.str() ==
          "alice");
    CHECK(any.trusts_claims(Zone::kInternal));
    CHECK(any.trusts_claims(Zone::kPublic) == (mode == IdentityMode::kOpen));
  }
}

TEST_CASE("an unknown mode trusts no claims", "[identity]") {
  CHECK(parse_identity_mode("open") == IdentityMode::kOpen);
  CHECK(parse_identity_mode("token") == IdentityMode::kToken);
  for (const char* name : {"header", "", "OPEN", "opened"})
    CHECK(parse_identity_mode(name) == IdentityMode::kHeader);
}

TEST_CASE("the visitor is the reader, otherwise the cookie's, otherwise a fingerprint's", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const auto cookie = header.issue_visitor_cookie(kRandom, false);
  const std::string sent = cookie_of(cookie);
  const Principal by_reader = identify(header, {.cookie = sent, .verified_user = "alice"});
  const Principal by_cookie = identify(header, {.remote_addr = "192.0.2.1", .cookie = sent}, {{}, "f"});
  const Principal by_print = identify(header, {.remote_addr = "192.0.2.1"}, {{}, "f"});
  CHECK(by_reader.visitor.str().front() == 'u');
  CHECK(by_cookie.visitor == cookie.visitor);
  CHECK(by_cookie.visitor.str().front() == 'c');
  CHECK(by_print.visitor.str().front() == 'a');
  CHECK_FALSE(by_reader.needs_cookie);
  CHECK_FALSE(by_cookie.needs_cookie);
  CHECK(by_print.needs_cookie);
}

TEST_CASE("the stable visitor depends on agent and address, but not on the fingerprint", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const auto counted_as = [&](std::string_view address, std::string_view agent,
                              std::string_view fingerprint) {
    return identify(header, {.remote_addr = address, .user_agent = agent}, {{}, fingerprint})
        .stable_visitor.str();
  };
  CHECK(counted_as("192.0.2.1", "UA", "f") == counted_as("192.0.2.1", "UA", "g"));
  CHECK(counted_as("192.0.2.1", "UA", "f") == counted_as("192.0.2.1", "UA", ""));
  CHECK(counted_as("192.0.2.1", "UA", "f") != counted_as("192.0.2.2", "UA", "f"));
  CHECK(counted_as("192.0.2.1", "UA", "f") != counted_as("192.0.2.1", "UB", "f"));
  CHECK(visitor_at(header, "192.0.2.1", "UA", "f") != visitor_at(header, "192.0.2.1", "UA", "g"));
  const std::string sent = cookie_of(header.issue_visitor_cookie(kRandom, false));
  for (const Request& request : {Request{.cookie = sent}, Request{.verified_user = "alice"}}) {
    const Principal principal = identify(header, request, {{}, "f"});
    CHECK(principal.stable_visitor == principal.visitor);
  }
}

TEST_CASE("a reader is the same visitor everywhere and never another client's", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const auto visitor = [&](std::string_view user, std::string_view address) {
    return identify(header, {.remote_addr = address, .verified_user = user}).visitor.str();
  };
  CHECK(visitor("alice", "192.0.2.1") == visitor("alice", "2001:db8::1"));
  CHECK(visitor("alice", "192.0.2.1") != visitor("alicf", "192.0.2.1"));
  // A user whose id looks like an anonymous visitor's remains a user.
  const std::string anonymous = visitor_at(header, "192.0.2.1");
  CHECK(visitor(anonymous, "192.0.2.1") != anonymous);
  CHECK(visitor(anonymous, "192.0.2.1").front() == 'u');
}

TEST_CASE("two anonymous readers differ by fingerprint, agent or address", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const std::set<std::string> visitors{visitor_at(header, "192.0.2.1"),
                                       visitor_at(header, "192.0.2.2"),
                                       visitor_at(header, "192.0.2.1", "UB"),
                                       visitor_at(header, "192.0.2.1", "UA", ""),
                                       visitor_at(header, "192.0.2.1", "UAf", ""),
                                       visitor_at(header, "")};
  CHECK(visitors.size() == 6);
  CHECK(visitor_at(header, "192.0.2.1") == visitor_at(header, "192.0.2.1"));
}

TEST_CASE("an IPv6 address counts as its /64, and a mapped IPv4 address as IPv4", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  CHECK(visitor_at(header, "2001:db8:1:2::1") == visitor_at(header, "2001:db8:1:2:ffff:ffff:ffff:ffff"));
  CHECK(visitor_at(header, "2001:db8:1:2::1") == visitor_at(header, "2001:0DB8:0001:0002:0::1"));
  CHECK(visitor_at(header, "2001:db8:1:2::1") != visitor_at(header, "2001:db8:1:3::1"));
  CHECK(visitor_at(header, "::ffff:192.0.2.1") == visitor_at(header, "192.0.2.1"));
  CHECK(visitor_at(header, "::ffff:192.0.2.1") != visitor_at(header, "::ffff:192.0.2.2"));
  CHECK(subscriber_prefix("unix:") == "unix:");
}

TEST_CASE("the wide network is an IPv4 /16 or an IPv6 /32", "[identity]") {
  Identity identity = make_identity(IdentityMode::kHeader);
  const auto wide = [&](const char* address) { return identity.wide_network_pseudonym(address); };
  CHECK(wide("192.0.2.1") == wide("192.0.255.9"));
  CHECK(wide("192.0.2.1") == wide("::ffff:192.0.99.9"));
  CHECK(wide("192.0.2.1") != wide("192.1.2.1"));
  CHECK(wide("2001:db8:1::1") == wide("2001:db8:ffff::9"));
  CHECK(wide("2001:db8:1::1") != wide("2001:db9:1::1"));
  CHECK(wide("192.0.2.1") != identity.network_pseudonym("192.0.2.1"));
  CHECK(wide_network_prefix("unix:") == "unix:");
}

TEST_CASE("another salt makes every visitor new", "[identity]") {
  Identity first = make_identity(IdentityMode::kHeader);
  auto other = Identity::create(IdentityMode::kHeader, "another salt, long enough");
  REQUIRE(other);
  CHECK(visitor_at(first, "192.0.2.1") != visitor_at(*other, "192.0.2.1"));
  const std::string sent = cookie_of(first.issue_visitor_cookie(kRandom, false));
  CHECK(identify(*other, {.cookie = sent}).needs_cookie);
  CHECK(error_of(Identity::create(IdentityMode::kHeader, "short")).reason == "weak_key");
}

TEST_CASE("a visitor cookie that we did not sign is ignored", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const std::string sent = cookie_of(header.issue_visitor_cookie(kRandom, false));
  REQUIRE_FALSE(identify(header, {.cookie = sent}).needs_cookie);
  const std::size_t value = sent.find('=') + 1;
  for (std::size_t i = value; i < sent.size(); ++i) {
    std::string forged = sent;
    forged[i] = forged[i] == 'A' ? 'B' : 'A';
    INFO(forged);
    CHECK(identify(header, {.cookie = forged}).needs_cookie);
    const std::string cut = sent.substr(0, i);
    CHECK(identify(header, {.cookie = cut}).needs_cookie);
  }
  CHECK(identify(header, {.cookie = "freshet_visitor="}).needs_cookie);
}

TEST_CASE("Set-Cookie lasts a year, is HttpOnly, and is Secure over TLS", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const std::string plain = header.issue_visitor_cookie(kRandom, false).set_cookie;
  const std::string secure = header.issue_visitor_cookie(kRandom, true).set_cookie;
  CHECK(plain.starts_with("freshet_visitor=AQIDBAUGBwgJCgsMDQ4PEA."));
  CHECK(plain.ends_with("; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax"));
  CHECK(secure.starts_with("__Host-freshet_visitor=AQIDBAUGBwgJCgsMDQ4PEA."));
  CHECK(secure.ends_with("; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax; Secure"));
  CHECK(secure.find("Domain") == std::string::npos);
}

TEST_CASE("over TLS only the __Host- cookie is accepted", "[identity]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const std::string plain = cookie_of(header.issue_visitor_cookie(kRandom, false));
  const std::string secure = cookie_of(header.issue_visitor_cookie(kRandom, true));
  const auto is_new = [&](const std::string& cookie, std::string_view site) {
    return identify(header, {.cookie = cookie, .site = site}).needs_cookie;
  };
  CHECK_FALSE(is_new(secure, "https://hot.example"));
  CHECK(is_new(plain, "https://hot.example"));
  CHECK_FALSE(is_new(plain, "http://hot.example"));
  CHECK(is_new(secure, "http://hot.example"));
  CHECK_FALSE(is_new(plain + "; " + secure, "https://hot.example"));
}

TEST_CASE("a proxy's X-Forwarded-Proto is trusted only if configured", "[identity]") {
  const Identity trusting = Identity::create(IdentityMode::kHeader, kSalt, {}, true).value();
  const Identity doubting = Identity::create(IdentityMode::kHeader, kSalt).value();
  for (const char* proto : {"https", "HTTPS", "https,http"}) {
    const Request request{.site = "http://hot.example", .forwarded_proto = proto};
    CHECK(trusting.is_over_tls(request));
    CHECK_FALSE(doubting.is_over_tls(request));
  }
  for (const char* proto : {"", "http", "http,https", "httpsx", ","})
    CHECK_FALSE(trusting.is_over_tls({.site = "http://hot.example", .forwarded_proto = proto}));
  CHECK(doubting.is_over_tls({.site = "https://hot.example"}));
}

TEST_CASE("a cookie is found by its full name", "[identity]") {
  CHECK(cookie_value("a=1; b=2;c=3", "b") == "2");
  CHECK(cookie_value("a=1; b=2;c=3", "c") == "3");
  CHECK(cookie_value("xb=1; b=2", "b") == "2");
  CHECK(cookie_value("b=1; b=2", "b") == "1");
  CHECK(cookie_value("b==x", "b") == "=x");
  CHECK(cookie_value("b; ;=; bb=1", "b").empty());
  CHECK(cookie_value("", "b").empty());
}

TEST_CASE("identifying a request takes about a microsecond", "[.bench]") {
  Identity header = make_identity(IdentityMode::kHeader);
  const Request request{.remote_addr = "2001:db8:1:2::1",
                        .user_agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"};
  constexpr int kRounds = 200000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) static_cast<void>(header.identify(request, {{}, "fingerprint"}, kNow));
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  WARN("identify, anonymous: " << spent.count() / kRounds << " ns");
}
