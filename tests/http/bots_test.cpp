#include "fcgi/http/bots.h"

#include <re2/re2.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <set>

#include "core/base/json.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::test;
using http::BotMatcher;

namespace {

constexpr std::string_view kChrome =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 "
    "Safari/537.36";
constexpr std::string_view kGooglebot =
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

BotMatcher make_matcher(const std::vector<std::string>& allow = {}) {
  auto made = BotMatcher::create(allow);
  REQUIRE(made);
  return std::move(*made);
}

// The example agents of the public list.
std::vector<std::string> crawler_agents() {
  std::vector<std::string> agents;
  const auto path = test::shared_path("corpora/crawler-user-agents/crawler-user-agents.json");
  if (!path) return agents;
  std::string text = test::read_file(*path);
  json::Document list;
  REQUIRE(list.parse(text, {.max_depth = 8, .max_nodes = 100000}));
  for (const auto entry : list.root().elements()) {
    for (const auto agent : entry["instances"].elements()) agents.emplace_back(agent.text());
  }
  REQUIRE(agents.size() > 2000);
  return agents;
}

// The distinct agents of real visitors in the Deskdrop log, whose lines have an agent in quotes or
// none.
std::set<std::string> reader_agents() {
  std::set<std::string> agents;
  const auto path = test::shared_path("data/deskdrop/users_interactions.csv");
  if (!path) return agents;
  std::ifstream in(*path);
  for (std::string line; std::getline(in, line);) {
    const std::size_t open = line.find('"');
    const std::size_t close = line.rfind('"');
    if (open != std::string::npos && close > open) agents.insert(line.substr(open + 1, close - open - 1));
  }
  REQUIRE(agents.size() > 900);
  return agents;
}

// The process's proportional set size (PSS) in KiB: its private memory plus its part of the shared
// memory.
long pss_kib() {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("Pss:")) return std::stol(line.substr(4));
  }
  return 0;
}

}  // namespace

TEST_CASE("RE2 accepts every pattern of the list", "[bots]") {
  const auto patterns = http::crawler_patterns();
  CHECK(patterns.size() == 1498 + 12);
  for (const auto pattern : patterns) {
    INFO(pattern);
    CHECK(RE2(re2::StringPiece(pattern.data(), pattern.size()), RE2::Quiet).ok());
  }
}

TEST_CASE("crawlers and empty agents are bots, browsers are not", "[bots]") {
  BotMatcher bots = make_matcher();
  for (int round = 0; round < 2; ++round) {  // the second round is cached
    CHECK(bots.is_bot(kGooglebot));
    CHECK(bots.is_bot("curl/8.5.0"));
    CHECK_FALSE(bots.is_bot(kChrome));
    CHECK(bots.is_bot(""));
    CHECK_FALSE(bots.is_bot("Android - Native Mobile App"));
  }
}

TEST_CASE("crawlers that the public list lacks are bots", "[bots]") {
  BotMatcher bots = make_matcher();
  for (const char* const agent :
       {"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-Agent/1.0)",
        "Mozilla/5.0 (compatible; Bravebot/1.0; +https://search.brave.com/help/brave-search-crawler)",
        "Mozilla/5.0 (compatible; GrokBot/1.0)", "Mozilla/5.0 (compatible; Andibot/0.1)",
        "Mozilla/5.0 (compatible; KimiBot/1.0)", "Mozilla/5.0 Chrome/130.0.0.0 Safari/537.36 NovaAct",
        "bedrockbot", "Mozilla/5.0 (compatible; Google Page Speed Insights)",
        "Mozilla/5.0 (compatible; PageSpeed Insights)", "node", "GuzzleHttp/7",
        "Mozilla/5.0 (compatible; Bluesky Cardyb/1.1)"}) {
    INFO(agent);
    CHECK(bots.is_bot(agent));
  }
  CHECK_FALSE(bots.is_bot("Mozilla/5.0 (node; rv:120.0) Gecko/20100101 Firefox/120.0"));
}

TEST_CASE("an allowed agent is not a bot even if the list matches it", "[bots]") {
  BotMatcher bots = make_matcher({"^curl/", "HeadlessChrome", "^$"});
  CHECK_FALSE(bots.is_bot(""));
  CHECK_FALSE(bots.is_bot("curl/8.5.0"));
  CHECK_FALSE(bots.is_bot("Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/126.0.0.0 Safari/537.36"));
  CHECK(bots.is_bot("Wget/1.21 (not curl/8)"));
  CHECK(bots.is_bot(kGooglebot));
}

TEST_CASE("the error about an invalid allow pattern names it", "[bots]") {
  const auto made = BotMatcher::create({"fine", "(broken"});
  REQUIRE_FALSE(made);
  CHECK(error_of(made).reason == "bad_pattern");
  CHECK(error_of(made).detail.find("(broken") != std::string::npos);
}

TEST_CASE("an agent may contain any bytes", "[bots]") {
  BotMatcher bots = make_matcher();
  CHECK_FALSE(bots.is_bot("\xFF\xFE\x80"));
  CHECK(bots.is_bot("\xFF Googlebot/2.1 \x80"));
  CHECK_FALSE(bots.is_bot(std::string(100000, 'a')));
  CHECK(bots.is_bot("Googlebot/" + std::string(100000, 'a')));
}

TEST_CASE("the cache never returns the result of another agent, however many there are", "[bots]") {
  BotMatcher bots = make_matcher();
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 3 * BotMatcher::kCacheEntries; ++i) {
      const std::string number = std::to_string(i);
      if (bots.is_bot("Reader/" + number)) FAIL("Reader/" << number);
      if (!bots.is_bot("Googlebot/" + number)) FAIL("Googlebot/" << number);
    }
  }
}

TEST_CASE("an agent made to have the hash of a browser does not make it a bot", "[bots]") {
  // Both have the XXH3_64bits hash 0xbc01396f314483a6.
  const std::string crafted =
      "\xb9\xfel9#\xa4K\xbem\xac"
      "b(E\xd2oRglGooglebot/2.1 ";
  const std::string browser =
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 "
      "Safari/537.36";
  REQUIRE(XXH3_64bits(crafted.data(), crafted.size()) == XXH3_64bits(browser.data(), browser.size()));
  BotMatcher bots = make_matcher();
  CHECK(bots.is_bot(crafted));
  CHECK_FALSE(bots.is_bot(browser));
}

TEST_CASE("every example of the public list is a bot", "[bots][corpus]") {
  BotMatcher bots = make_matcher();
  for (const auto& agent : crawler_agents()) {
    INFO(agent);
    CHECK(bots.is_bot(agent));
  }
}

TEST_CASE("among a thousand agents of real readers only the performance tester is a bot", "[bots][corpus]") {
  BotMatcher bots = make_matcher();
  for (const auto& agent : reader_agents()) {
    INFO(agent);
    CHECK(bots.is_bot(agent) == (agent.find(" PTST/") != std::string::npos));
  }
}

TEST_CASE("cost of matching", "[.bench]") {
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  const auto readers = reader_agents();
  const auto crawlers = crawler_agents();
  const long before = pss_kib();
  const auto begin = Clock::now();
  BotMatcher bots = make_matcher();
  WARN("compiled in " << ms(Clock::now() - begin) << " ms, +" << pss_kib() - before << " KiB");

  // Two child processes share what the parent compiled, as workers do.
  int done[2];
  REQUIRE(pipe(done) == 0);
  for (int child = 0; child < 2; ++child) {
    if (fork() != 0) continue;
    const long at_start = pss_kib();
    const auto first = Clock::now();
    for (const auto& agent : readers) static_cast<void>(bots.is_bot(agent));
    const auto second = Clock::now();
    const long with_readers = pss_kib();
    for (const auto& agent : crawlers) static_cast<void>(bots.is_bot(agent));
    const auto third = Clock::now();
    const long with_all = pss_kib();
    for (int i = 0; i < 1000; ++i)
      static_cast<void>(bots.is_bot("Reader/" + std::to_string(i) + std::string(200, 'x')));
    const auto fourth = Clock::now();
    for (int i = 0; i < 1000000; ++i) static_cast<void>(bots.is_bot(kChrome));
    const auto fifth = Clock::now();
    std::fprintf(
        stderr,
        "child: %zu readers %.1f us each, +%ld KiB; %zu crawlers %.1f us each, +%ld KiB; new again %.2f us; "
        "cached %.1f ns\n",
        readers.size(), 1e3 * ms(second - first) / static_cast<double>(readers.size()),
        with_readers - at_start, crawlers.size(),
        1e3 * ms(third - second) / static_cast<double>(crawlers.size()), with_all - at_start,
        ms(fourth - third), ms(fifth - fourth));
    _exit(write(done[1], "x", 1) == 1 ? 0 : 1);
  }
  for (int child = 0; child < 2; ++child) wait(nullptr);
  close(done[0]);
  close(done[1]);
}
