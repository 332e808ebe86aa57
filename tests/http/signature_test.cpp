// What the internal server takes for signed.
#include "fcgi/http/signature.h"

#include <catch2/catch.hpp>

using namespace freshet;
using namespace freshet::http;

namespace {

const UnixSeconds kNow{seconds{1772798400}};
const SignedRequest kRequest{"POST", "/api/items?x=1", "{\"a\":1}"};

SignatureKeys make_keys() {
  auto made = SignatureKeys::create({{"k1", "0123456789abcdef"}, {"k2", "fedcba9876543210"}});
  REQUIRE(made);
  return std::move(*made);
}

std::string verify_reason(SignatureKeys& signatures, std::string_view authorization, const SignedRequest& request = kRequest,
                   UnixSeconds now = kNow) {
  const auto verified = signatures.verify(authorization, request, now);
  if (verified) return "ok";
  CHECK(verified.error().code == ErrorCode::kUnauthorised);
  return std::string(verified.error().reason);
}

}  // namespace

TEST_CASE("what one of the keys signed is believed, and nothing else about it may change", "[signature]") {
  SignatureKeys both = make_keys();
  const std::string first = both.sign("k1", kRequest, kNow).value();
  CHECK(verify_reason(both, first) == "ok");
  CHECK(verify_reason(both, both.sign("k2", kRequest, kNow).value()) == "ok");
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

TEST_CASE("the signature is the one that openssl makes", "[signature]") {
  // printf 'v1\nPOST\n/api/items?x=1\n1772798400\n%s' "$(printf '{"a":1}' | sha256sum | cut -d' '
  // -f1)" |
  //   openssl dgst -sha256 -hmac 0123456789abcdef -r
  CHECK(make_keys().sign("k1", kRequest, kNow).value() ==
        "Freshet-HMAC-SHA256 kid=k1, ts=1772798400, "
        "sig=63e81f7331492003df386a75de053433ff849cbc7b41107d19bf9fe8410a320b");
}

TEST_CASE("a signature is good for five minutes around its time", "[signature]") {
  SignatureKeys both = make_keys();
  const std::string made = both.sign("k1", kRequest, kNow).value();
  for (const int off : {-300, -1, 0, 300}) CHECK(verify_reason(both, made, kRequest, kNow + seconds{off}) == "ok");
  for (const int off : {-301, 301, 86400})
    CHECK(verify_reason(both, made, kRequest, kNow + seconds{off}) == "stale_signature");
}

TEST_CASE("a key that was taken away signs no more", "[signature]") {
  const std::string made = make_keys().sign("k1", kRequest, kNow).value();
  auto rotated = SignatureKeys::create({{"k2", "fedcba9876543210"}});
  REQUIRE(rotated);
  CHECK(verify_reason(*rotated, made) == "bad_signature");
  CHECK(rotated->sign("k1", kRequest, kNow).error().reason == "bad_key_id");
  CHECK(SignatureKeys::create({{"a b", "0123456789abcdef"}}).error().reason == "bad_key_id");
  CHECK(SignatureKeys::create({{"k", "short"}}).error().reason == "weak_key");
  CHECK(SignatureKeys::create({}).value().empty());
}
