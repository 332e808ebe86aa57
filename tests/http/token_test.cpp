#include "fcgi/http/token.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <regex>

#include "core/base/hex.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::http;

namespace {

const UnixSeconds kNow{seconds{1772798400}};

TokenKeys two_keys() {
  auto keys = TokenKeys::create({{"old", "an old secret of 24 bytes"}, {"new", "a new secret of 24 bytes!"}});
  REQUIRE(keys);
  return std::move(*keys);
}

ReaderId reader(const std::string& id) { return ReaderId::trusted(id); }

void refused(TokenKeys& keys, const std::string& token, std::string_view reason = "bad_token") {
  INFO(token);
  const auto result = keys.verify(token, kNow);
  REQUIRE_FALSE(result);
  CHECK(error_of(result).code == ErrorCode::kUnauthorised);
  CHECK(error_of(result).reason == reason);
}

}  // namespace

TEST_CASE("HMAC-SHA256 gives the digest of RFC 4231, repeatedly", "[hmac]") {
  auto hmac = Hmac::create(std::string(20, '\x0b'));
  REQUIRE(hmac);
  for (int i = 0; i < 3; ++i) {
    CHECK(hex(hmac->compute("Hi There")) ==
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  }
  CHECK_FALSE(Hmac::create("too short"));
}

TEST_CASE("different lists of fields have different digests", "[hmac]") {
  auto hmac = Hmac::create("0123456789abcdef");
  CHECK(hmac->compute_fields({"ab", "c"}) != hmac->compute_fields({"a", "bc"}));
  CHECK(hmac->compute_fields({"ab", ""}) != hmac->compute_fields({"", "ab"}));
  CHECK(hmac->compute_fields({"a"}) != hmac->compute_fields({"a", ""}));
}

TEST_CASE("base64url is RFC 4648 without padding", "[hmac]") {
  CHECK(base64url("") == "");
  CHECK(base64url("f") == "Zg");
  CHECK(base64url("fo") == "Zm8");
  CHECK(base64url("foo") == "Zm9v");
  CHECK(base64url("foobar") == "Zm9vYmFy");
  CHECK(base64url("\xFB\xFF") == "-_8");
}

TEST_CASE("a token has the documented form, which any language can sign", "[token]") {
  // printf 'v1.k1.42.1772802000' | openssl dgst -sha256 -hmac 0123456789abcdef
  const std::string token =
      "v1.k1.42.1772802000.0b8055a1442cef84ff1af77d3cff7453459d9ce84c91f15184ee869c0bb43ff0";
  auto keys = TokenKeys::create({{"k1", "0123456789abcdef"}});
  CHECK(keys->verify(token, kNow)->str() == "42");
  CHECK(keys->sign("k1", reader("42"), kNow + seconds{3600}).value() == token);
}

TEST_CASE("the tokens in INTEGRATION.md are those that the service makes and accepts", "[token]") {
  auto keys = TokenKeys::create({{"k1", "0123456789abcdef0123456789abcdef"}});
  std::ifstream document(std::string(FRESHET_SOURCE_DIR) + "/INTEGRATION.md");
  const std::regex row(R"(\| `(.+)` \| `(\d+)` \| `(v1\..+)` \|)");
  int rows = 0;
  for (std::string line; std::getline(document, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    ++rows;
    const UnixSeconds expires{seconds{std::stoll(cells[2])}};
    CHECK(keys->sign("k1", reader(cells[1]), expires).value() == cells[3]);
    const std::string token = cells[3];
    const auto verified = keys->verify(token, expires - seconds{1});
    REQUIRE(verified);
    CHECK(verified->str() == cells[1]);
  }
  CHECK(rows == 6);
}

TEST_CASE("a token names its reader until it expires", "[token]") {
  auto keys = two_keys();
  const std::string token = keys.sign("new", reader("u42"), kNow + seconds{1}).value();
  CHECK(keys.verify(token, kNow)->str() == "u42");
  refused(keys, keys.sign("new", reader("u42"), kNow).value(), "expired_token");
  refused(keys, keys.sign("new", reader("u42"), kNow - seconds{1}).value(), "expired_token");
}

TEST_CASE("two keys are valid side by side, and a removed one is no longer valid", "[token]") {
  auto both = two_keys();
  const std::string old_token = both.sign("old", reader("a"), kNow + seconds{9}).value();
  const std::string new_token = both.sign("new", reader("b"), kNow + seconds{9}).value();
  CHECK(both.verify(old_token, kNow)->str() == "a");
  CHECK(both.verify(new_token, kNow)->str() == "b");
  auto rotated = TokenKeys::create({{"new", "a new secret of 24 bytes!"}});
  refused(*rotated, old_token);
  CHECK(rotated->verify(new_token, kNow));
}

TEST_CASE("changing any byte of a token makes it invalid", "[token]") {
  auto keys = two_keys();
  const std::string token = keys.sign("new", reader("u42"), kNow + seconds{3600}).value();
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string forged = token;
    forged[i] = forged[i] == '1' ? '2' : '1';
    refused(keys, forged);
  }
  for (std::size_t size = 0; size < token.size(); ++size) refused(keys, token.substr(0, size));
  refused(keys, token + "0");
  refused(keys, token + ".");
}

TEST_CASE("text that is not a token is rejected", "[token]") {
  auto keys = two_keys();
  for (const char* token : {"", ".", "v1", "v1.", "v1..", "v1...", "v1....", "v1.new", "v1.new.a.1",
                            "v2.new.a.1.x", "v1.new.a.b.c.d.e", "v1.none.a.9999999999.00"})
    refused(keys, token);
}

TEST_CASE("a genuine signature does not make a bad id or time valid", "[token]") {
  auto key = Hmac::create("a new secret of 24 bytes!");
  auto keys = two_keys();
  for (const std::string message :
       {"v1.new.a%09b.9999999999", "v1.new..9999999999", "v1.new.%20a.9999999999", "v1.new.a%.9999999999",
        "v1.new.a.", "v1.new.a.-1", "v1.new.a.1e9", "v1.new.a.999999999999999"})
    refused(keys, message + "." + hex(key->compute(message)));
}

TEST_CASE("every id survives signing and verification, including dots", "[token]") {
  auto keys = two_keys();
  for (const char* id : {"a.b.c", ".a", "a..", "...", "文", "a;b", "a b"}) {
    const std::string token = keys.sign("new", reader(id), kNow + seconds{9}).value();
    CHECK(token.find_first_of("; ,\"") == std::string::npos);
    if (parse_id(id, "uid")) CHECK(keys.verify(token, kNow)->str() == id);
  }
  CHECK(rc::check("ids", [&] {
    const auto parts =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
            ".", "%", "a", "7", "é", "文", "🙂", ";", "\"", "+", "/", "=", "~", "-", "_")));
    std::string id;
    for (const auto& part : parts) id += part;
    RC_PRE(parse_id(id, "uid").has_value());
    RC_ASSERT(keys.verify(keys.sign("old", reader(id), kNow + seconds{9}).value(), kNow)->str() == id);
  }));
}

TEST_CASE("weak keys and invalid key ids are rejected", "[token]") {
  CHECK(error_of(TokenKeys::create({{"k", "short"}})).reason == "weak_key");
  CHECK(error_of(TokenKeys::create({{"a.b", "0123456789abcdef"}})).reason == "bad_key_id");
  CHECK(error_of(TokenKeys::create({{"", "0123456789abcdef"}})).reason == "bad_key_id");
}
