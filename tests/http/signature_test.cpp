// Verification of signed requests to the internal server.
#include "fcgi/http/signature.h"

#include <catch2/catch.hpp>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::http;

namespace {

const UnixSeconds kNow{seconds{1772798400}};
const SignedRequest kRequest{"POST", "/api/items?x=1", "{\"a\":1}"};

SignatureKeys make_keys() {
  auto made = SignatureKeys::create({{"k1", "0123456789abcdef"}, {"k2", "fedcba9876543210"}});
  REQUIRE(made);
  return std::move(*made);
}

std::string verify_reason(SignatureKeys& signatures, std::string_view authorization,
                          const SignedRequest& request = kRequest, UnixSeconds now = kNow) {
  const auto verified = signatures.verify(authorization, request, now);
  if (verified) return "ok";
  CHECK(error_of(verified).code == ErrorCode::kUnauthorised);
  return std::string(error_of(verified).reason);
}

}  // namespace

TEST_CASE("a request signed with one of the keys is accepted, and none that was altered", "[signature]") {
  SignatureKeys both = make_keys();
  const std::string first = both.sign("k1", kRequest, kNow).value();
  CHECK(verify_reason(both, first) == "ok");
  CHECK(verify_reason(both, both.sign("k2", kRequest, kNow).value()) == "ok");
  CHECK(both.verify(both.sign("k2", kRequest, kNow).value(), kRequest, kNow).value() == "k2");
  CHECK(verify_reason(both, first, {"PUT", kRequest.target, kRequest.body}) == "bad_signature");
  CHECK(verify_reason(both, first, {kRequest.method, "/api/items?x=2", kRequest.body}) == "bad_signature");
  CHECK(verify_reason(both, first, {kRequest.method, kRequest.target, "{\"a\":2}"}) == "bad_signature");
  for (std::size_t i = kSignatureScheme.size(); i < first.size(); ++i) {
    std::string forged = first;
    forged[i] = forged[i] == '1' ? '2' : '1';
    INFO(forged);
    CHECK(verify_reason(both, forged) == "bad_signature");
    CHECK(verify_reason(both, first.substr(0, i)) == "bad_signature");
  }
  for (const char* other :
       {"", "Bearer x", "Freshet-HMAC-SHA256", "Freshet-HMAC-SHA256 ", "Freshet-HMAC-SHA256 kid=k1"}) {
    CHECK(verify_reason(both, other) == "bad_signature");
  }
}

TEST_CASE("the signature equals the one that openssl makes", "[signature]") {
  // body=$(printf '{"a":1}' | sha256sum | cut -d' ' -f1)
  // printf 'v1\nPOST\n/api/items?x=1\n1772798400\n%s' "$body" |
  //   openssl dgst -sha256 -hmac 0123456789abcdef -r
  CHECK(make_keys().sign("k1", kRequest, kNow).value() ==
        "Freshet-HMAC-SHA256 kid=k1, ts=1772798400, "
        "sig=63e81f7331492003df386a75de053433ff849cbc7b41107d19bf9fe8410a320b");
}

TEST_CASE("a signature is valid for five minutes before and after its time", "[signature]") {
  SignatureKeys both = make_keys();
  const std::string signature = both.sign("k1", kRequest, kNow).value();
  for (const int offset : {-300, -1, 0, 300})
    CHECK(verify_reason(both, signature, kRequest, kNow + seconds{offset}) == "ok");
  for (const int offset : {-301, 301, 86400})
    CHECK(verify_reason(both, signature, kRequest, kNow + seconds{offset}) == "stale_signature");
}

TEST_CASE("a removed key no longer signs", "[signature]") {
  const std::string signature = make_keys().sign("k1", kRequest, kNow).value();
  auto rotated = SignatureKeys::create({{"k2", "fedcba9876543210"}});
  REQUIRE(rotated);
  CHECK(verify_reason(*rotated, signature) == "bad_signature");
  CHECK(error_of(rotated->sign("k1", kRequest, kNow)).reason == "bad_key_id");
  CHECK(error_of(SignatureKeys::create({{"a b", "0123456789abcdef"}})).reason == "bad_key_id");
  CHECK(error_of(SignatureKeys::create({{"k", "short"}})).reason == "weak_key");
  CHECK(SignatureKeys::create({}).value().empty());
}
