#include "fcgi/http/known_names.h"

#include <catch2/catch.hpp>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::http;
using freshet::test::error_of;

namespace {

constexpr std::string_view kKnown = "userId topicId kind eventId";

Error error_for(std::string_view uri, std::string_view known = kKnown) {
  const auto target = Target::parse(uri);
  REQUIRE(target);
  return error_of(NameCheck(false).check_parameters(*target, known));
}

std::string ignored_in(std::string_view uri, std::string_view known = kKnown) {
  const auto target = Target::parse(uri);
  REQUIRE(target);
  NameCheck names(true);
  REQUIRE(names.check_parameters(*target, known));
  return names.ignored();
}

}  // namespace

TEST_CASE("a name is known if it is one of the list, whole and in the same case", "[known_names]") {
  for (const char* name : {"userId", "topicId", "kind", "eventId"}) CHECK(is_known_name(kKnown, name));
  for (const char* name : {"", " ", "user", "Id", "userId topicId", "userid", "kind ", "eventIds"}) {
    CAPTURE(name);
    CHECK_FALSE(is_known_name(kKnown, name));
  }
  CHECK(is_known_name("limits limit", "limit"));  // the first occurrence is part of another name
  CHECK_FALSE(is_known_name("", "limit"));
}

TEST_CASE("an unknown parameter is an error that names the nearest known one", "[known_names]") {
  const auto detail = [](std::string_view uri) {
    const Error error = error_for(uri);
    CHECK(error.code == ErrorCode::kInvalid);
    CHECK(error.reason == "unknown_parameter");
    return error.member + ": " + error.detail;
  };
  CHECK(detail("/?userId=1&topcId=2") == "topcId: is unknown; did you mean \"topicId\"?");
  CHECK(detail("/?USERID=1") == "USERID: is unknown; did you mean \"userId\"?");
  CHECK(detail("/?kidn=1") == "kidn: is unknown; did you mean \"kind\"?");
  CHECK(detail("/?zz=1") == "zz: is unknown; known names: userId, topicId, kind, eventId");
  CHECK(error_for("/?tag=1", "").detail == "is unknown; this route takes none");
  const std::string long_name(5000, 'k');
  CHECK(error_for("/?" + long_name + "=1").member == long_name.substr(0, 64));
}

TEST_CASE("a lenient check lists what it ignores", "[known_names]") {
  CHECK(ignored_in("/?userId=1&kind=topic").empty());
  CHECK(ignored_in("/?utm_source=a&userId=1&_=2&utm_source=b") == "utm_source, _");
  CHECK(ignored_in("/?a%0d%0aX:%20y=1&%C3%A4=2&b%2Cc=3") == "a%0D%0AX%3A%20y, %C3%A4, b%2Cc");
  std::string uri = "/?", expected;
  for (int i = 0; i < 20; ++i) {
    uri += "n" + std::to_string(i) + "&";
    if (i < 10) expected += (i == 0 ? "n" : ", n") + std::to_string(i);
  }
  CHECK(ignored_in(uri) == expected);
}

TEST_CASE("unknown members are refused, listed or counted", "[known_names]") {
  std::string text = R"({"userId":"a","tag":["x"],"\u0074ag":1,"kinds":{"kind":1}})";
  json::Document document;
  REQUIRE(document.parse(text));
  const Error error = error_of(NameCheck(false).check_members(document.root(), kKnown));
  CHECK(error.reason == "unknown_member");
  CHECK(error.member == "tag");
  NameCheck lenient(true);
  REQUIRE(lenient.check_members(document.root(), kKnown));
  CHECK(lenient.ignored() == "tag, kinds");
  IgnoredMembers counts{{"kinds", 4}};
  count_ignored_members(document.root(), kKnown, counts);
  CHECK(counts == IgnoredMembers{{"kinds", 5}, {"tag", 2}});
}

TEST_CASE("Prefer asks for lenient handling as RFC 7240 writes it", "[known_names]") {
  for (const char* prefer : {"handling=lenient", "Handling=Lenient", "respond-async, handling=lenient; x=1",
                             "handling = \"lenient\"", "wait=5,handling=lenient"}) {
    CAPTURE(prefer);
    CHECK(prefers_lenient_handling(prefer));
  }
  for (const char* prefer : {"", "handling=strict", "handling", "xhandling=lenient",
                             "respond-async; handling=lenient", "handling=lenient2"}) {
    CAPTURE(prefer);
    CHECK_FALSE(prefers_lenient_handling(prefer));
  }
}
