// Lookups in client lists, in every notation of an address.
#include "fcgi/http/client_list.h"

#include <arpa/inet.h>

#include <rapidcheck.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::http;

namespace {

ClientList parse_list(std::string_view text) {
  auto parsed = ClientList::parse(text, "list");
  INFO((parsed ? "" : parsed.error().detail));
  REQUIRE(parsed);
  return std::move(*parsed);
}

std::string refusal_of(std::string_view text) {
  const auto parsed = ClientList::parse(text, "/etc/deny");
  REQUIRE_FALSE(parsed);
  CHECK(error_of(parsed).reason == "bad_clients");
  return error_of(parsed).detail;
}

std::string address(std::uint32_t number) {
  const in_addr raw{htonl(number)};
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, &raw, text, sizeof text);
}

}  // namespace

TEST_CASE("addresses and networks of both families match, and their neighbors do not", "[clients]") {
  const ClientList some = parse_list(
      "# the first of them\n192.0.2.7\n\n  198.51.100.0/24  # an office\r\n2001:db8:1::/48\n2001:db8:2::9\n");
  for (const char* in : {"192.0.2.7", "198.51.100.0", "198.51.100.255", "2001:db8:1::", "2001:db8:1:ffff::1",
                         "2001:DB8:2:0::9", "::ffff:192.0.2.7", "::ffff:198.51.100.9"}) {
    INFO(in);
    CHECK(some.matches(in, ""));
  }
  for (const char* out : {"192.0.2.6", "192.0.2.8", "198.51.99.255", "198.51.101.0",
                          "2001:db8:2::", "2001:db8:0:ffff::", "2001:db8:2::8", "::ffff:192.0.2.8",
                          "::c000:207", "unix:", "", "192.0.2.7.", "192.0.2.07 "}) {
    INFO(out);
    CHECK_FALSE(some.matches(out, ""));
  }
}

TEST_CASE("a v4-mapped network matches IPv4 addresses, and ::/0 does not", "[clients]") {
  const ClientList mapped = parse_list("::ffff:198.51.100.0/120");
  CHECK(mapped.matches("198.51.100.77", ""));
  CHECK_FALSE(mapped.matches("198.51.101.77", ""));
  CHECK(parse_list("0.0.0.0/0").matches("203.0.113.1", ""));
  CHECK_FALSE(parse_list("0.0.0.0/0").matches("2001:db8::1", ""));
  CHECK(parse_list("::ffff:0:0/96").matches("203.0.113.1", ""));
  CHECK_FALSE(parse_list("::/80").matches("203.0.113.1", ""));
  CHECK(parse_list("::/0").matches("2001:db8::1", ""));
  CHECK(parse_list("::/0").matches("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""));
  CHECK_FALSE(parse_list("::/0").matches("203.0.113.1", ""));
}

TEST_CASE("each agent pattern matches on its own", "[clients]") {
  const ClientList some = parse_list("agent:^BadBot/\nagent: scrape(r|d)# \n");
  CHECK(some.matches("192.0.2.1", "BadBot/2"));
  CHECK_FALSE(some.matches("192.0.2.1", "not BadBot/2"));
  CHECK(some.matches("", "a scraper#"));
  CHECK_FALSE(some.matches("", "a scraper"));
  CHECK_FALSE(parse_list("agent:^a|b$").matches("", "xay"));
  CHECK(parse_list("agent:^a|b$\nagent:zzz").matches("", "xb"));
  const std::string late_match = std::string(ClientList::kMaxAgentBytes, 'x') + "BadBot/";
  CHECK_FALSE(parse_list("agent:BadBot").matches("", late_match));
}

TEST_CASE("errors name the file and the line", "[clients]") {
  CHECK(refusal_of("192.0.2.1\nexample.org\n").starts_with("/etc/deny:2: "));
  CHECK(refusal_of("\n\n10.1.0.0/8").find("/etc/deny:3: the address has host bits set") == 0);
  CHECK(refusal_of("agent:(").starts_with("/etc/deny:1: not a valid RE2 pattern"));
  for (const char* wrong :
       {"agent:", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0",
        "1.2.3.4 5.6.7.8", "2001:db8::1/64", "agent:(?P<x", "/8", "0.0.0.0/4294967296", "fe80::1%2"}) {
    INFO(wrong);
    CHECK(refusal_of(wrong).starts_with("/etc/deny:1: "));
  }
  CHECK(error_of(ClientList::read("/nowhere/deny")).detail ==
        "/nowhere/deny: cannot be read: No such file or directory");
  CHECK(error_of(ClientList::read("/tmp")).detail == "/tmp: cannot be read: Is a directory");
}

TEST_CASE("no file means no clients, and the allow list takes precedence", "[clients]") {
  const auto none = ClientList::read("");
  REQUIRE(none);
  CHECK_FALSE(none->matches("192.0.2.1", "any"));
  const ClientLists both{parse_list("192.0.2.0/24\nagent:Bad"), parse_list("192.0.2.7\nagent:Good")};
  CHECK(decide_access(both, "192.0.2.1", "x") == AccessDecision::kDenied);
  CHECK(decide_access(both, "192.0.2.7", "Bad") == AccessDecision::kAllowed);
  CHECK(decide_access(both, "192.0.2.1", "Good") == AccessDecision::kAllowed);
  CHECK(decide_access(both, "203.0.113.1", "x") == AccessDecision::kUnlisted);
}

TEST_CASE("an address matches if and only if a network contains it, however networks overlap", "[clients]") {
  CHECK(rc::check("same as a linear search", [] {
    struct Net {
      std::uint32_t base, mask;
    };
    std::vector<Net> nets;
    std::string text;
    const auto count = *rc::gen::inRange(0, 20);
    for (int i = 0; i < count; ++i) {
      const auto prefix = *rc::gen::inRange(0, 33);
      const std::uint32_t mask = prefix == 0 ? 0 : ~std::uint32_t{0} << (32 - prefix);
      // Few high bits, so that networks overlap.
      const std::uint32_t base = *rc::gen::inRange<std::uint32_t>(0, 1 << 12) << 20 & mask;
      nets.push_back({base, mask});
      text += address(base) + "/" + std::to_string(prefix) + "\n";
    }
    const ClientList networks = parse_list(text);
    for (int i = 0; i < 50; ++i) {
      const std::uint32_t candidate =
          (*rc::gen::inRange<std::uint32_t>(0, 1 << 12) << 20) + *rc::gen::inRange<std::uint32_t>(0, 3);
      const bool expected =
          std::any_of(nets.begin(), nets.end(), [&](Net n) { return (candidate & n.mask) == n.base; });
      RC_ASSERT(networks.matches(address(candidate), "") == expected);
      RC_ASSERT(networks.matches("::ffff:" + address(candidate), "") == expected);
    }
  }));
}

TEST_CASE("a lookup among 100,000 networks", "[.bench]") {
  std::string text;
  for (std::uint32_t i = 0; i < 100'000; ++i) text += address(0x01000000 + i * 512) + "/24\n";
  const ClientList many = parse_list(text);
  constexpr int kRounds = 1'000'000;
  int found = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < kRounds; ++i) found += many.matches("3.77.18.9", "") ? 1 : 0;
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  WARN("has(): " << spent.count() / kRounds << " ns; " << found);
}
