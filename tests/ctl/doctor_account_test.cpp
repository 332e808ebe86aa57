// doctor's check of the service's Redis account, against real accounts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "scripts/ctl/doctor/doctor.h"
#include "tests/support/error_of.h"
#include "tests/support/redis_server.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

// ACL rules of "user freshet" in the shipped file.
std::vector<std::string> shipped_rules() {
  std::ifstream file(std::string(FRESHET_SOURCE_DIR) + "/systemd/redis-acl.conf");
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("user freshet ")) continue;
    std::istringstream words(line.substr(13));
    for (std::string word; words >> word;) out.push_back(word);
  }
  REQUIRE(out.size() > 50);
  return out;
}

struct Server {
  RedisServer server;
  redis::BlockingRedis root{server.endpoint(), milliseconds(5000), {}};
  Settings settings;

  redis::Reply ask(const std::vector<std::string>& words) {
    redis::Pipeline one;
    one.command(words.size());
    for (const std::string& each : words) one.arg(each);
    auto replies = root.call(one);
    REQUIRE(replies);
    return std::move(replies->front());
  }
  // Creates the account with the shipped rules, then `changes`.
  void set_account(std::vector<std::string> changes) {
    std::vector<std::string> words{"ACL", "SETUSER", "freshet", "reset", "on"};
    for (const std::string& each : shipped_rules())
      if (each != "resetpass") words.push_back(each);
    words.emplace_back(">secret");
    words.insert(words.end(), changes.begin(), changes.end());
    const auto reply = ask(words);
    INFO((reply.is_error() ? reply.error() : "OK"));
    REQUIRE_FALSE(reply.is_error());
  }
  Result<AccountFacts> collect_facts(const std::string& password = "secret") const {
    redis::Endpoint endpoint = server.endpoint();
    endpoint.username = "freshet";
    endpoint.password = password;
    return collect_account_facts(endpoint, settings);
  }
};

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name) > 0;
}

Severity severity_of(const AccountFacts& facts) {
  Diagnoses out;
  evaluate_account(facts, out);
  REQUIRE_FALSE(out.all().empty());
  return out.all().front().severity;
}

}  // namespace

TEST_CASE("the shipped account has exactly the rights that the service needs", "[doctor][redis]") {
  Server redis;
  redis.set_account({});
  const auto facts = redis.collect_facts();
  REQUIRE(facts);
  CHECK(facts->name == "freshet");
  CHECK(facts->missing == std::vector<std::string>{});
  CHECK(facts->excess == std::vector<std::string>{});
  CHECK(severity_of(*facts) == Severity::kOk);
}

TEST_CASE("each right removed from the shipped account is reported by name", "[doctor][redis]") {
  Server redis;
  for (const std::string& right : shipped_rules()) {
    if (!right.starts_with('+') && !right.starts_with('~')) continue;
    INFO(right);
    if (right.starts_with('+')) {
      std::string name = right.substr(1);
      redis.set_account({"-" + name});
      std::ranges::transform(name, name.begin(),
                             [](unsigned char c) { return c == '|' ? ' ' : std::toupper(c); });
      const auto facts = redis.collect_facts();
      if (name == "PING") {  // sent by the handshake
        REQUIRE_FALSE(facts);
        CHECK(error_of(facts).reason == "redis_noperm");
        continue;
      }
      if (name == "MULTI" || name == "EXEC") name = "EXEC";  // reported together
      REQUIRE(facts);
      CHECK(has(facts->missing, name));
      CHECK(severity_of(*facts) == Severity::kError);
      continue;
    }
    redis.set_account({"resetkeys"});
    std::vector<std::string> others{"ACL", "SETUSER", "freshet"};
    for (const std::string& each : shipped_rules())
      if (each.starts_with('~') && each != right) others.push_back(each);
    REQUIRE_FALSE(redis.ask(others).is_error());
    const auto facts = redis.collect_facts();
    REQUIRE(facts);
    const std::string family = "the key " + right.substr(1, right.find('*') - 1);
    CHECK(std::ranges::any_of(facts->missing, [&](const auto& each) { return each.starts_with(family); }));
  }
}

TEST_CASE("an account without the service's key prefix or channel is an error", "[doctor][redis]") {
  Server redis;
  redis.set_account({"resetchannels"});
  CHECK(has(redis.collect_facts()->missing, "the channel hot:epoch"));
  redis.set_account({});
  redis.settings.redis.key_prefix = "site:";
  CHECK(has(redis.collect_facts()->missing, "the key site:hot:rank"));
}

TEST_CASE("unneeded rights are a warning", "[doctor][redis]") {
  Server redis;
  for (const auto& [right, name] :
       {std::pair("+flushall", "FLUSHALL"), std::pair("+flushdb", "FLUSHDB"), std::pair("+keys", "KEYS"),
        std::pair("+swapdb", "SWAPDB"), std::pair("+replicaof", "REPLICAOF"),
        std::pair("+config|set", "CONFIG SET"), std::pair("+acl", "ACL DELUSER"),
        std::pair("+script|kill", "SCRIPT KILL"), std::pair("+client|kill", "CLIENT KILL"),
        std::pair("+eval", "EVAL"), std::pair("~*", "keys of other applications")}) {
    INFO(right);
    redis.set_account({right});
    const auto facts = redis.collect_facts();
    REQUIRE(facts);
    CHECK(facts->excess == std::vector<std::string>{name});
    CHECK(severity_of(*facts) == Severity::kWarning);
  }
}

TEST_CASE("the default account is a warning and probing it changes nothing", "[doctor][redis]") {
  Server redis;
  REQUIRE_FALSE(redis.ask({"SET", "hot:x", "kept"}).is_error());
  REQUIRE_FALSE(redis.ask({"XADD", "recorder:stream", "1-1", "a", "b"}).is_error());
  const auto before = redis.ask({"DBSIZE"}).integer().value();
  const auto facts = collect_account_facts(redis.server.endpoint(), redis.settings);
  REQUIRE(facts);
  CHECK(facts->name == "default");
  CHECK(facts->missing == std::vector<std::string>{});
  CHECK(facts->excess.size() == 11);
  CHECK(severity_of(*facts) == Severity::kWarning);
  CHECK(redis.ask({"DBSIZE"}).integer().value() == before);
  CHECK(redis.ask({"GET", "hot:x"}).string().value() == "kept");
  CHECK(redis.ask({"XLEN", "recorder:stream"}).integer().value() == 1);
  CHECK(redis.ask({"ROLE"})[0].string().value() == "master");
}

TEST_CASE("an account that cannot log in or use MULTI is reported", "[doctor][redis]") {
  Server redis;
  redis.set_account({});
  const auto refused = redis.collect_facts("another");
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "redis_noauth");
  redis.set_account({"-multi"});
  CHECK(redis.collect_facts()->missing == std::vector<std::string>{"MULTI", "EXEC"});
}
