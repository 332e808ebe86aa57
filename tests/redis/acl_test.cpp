// The shipped Redis accounts (systemd/redis-acl.conf) allow what the service needs and no more.
#include <fnmatch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/redis/keys.h"
#include "tests/support/error_of.h"
#include "tests/support/redis_server.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const std::filesystem::path kSources = FRESHET_SOURCE_DIR;
const std::filesystem::path kAclFile = kSources / "systemd" / "redis-acl.conf";

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

struct Account {
  std::vector<std::string> keys;   // patterns
  std::set<std::string> commands;  // as written after "+"
};

std::map<std::string, Account> accounts() {
  std::map<std::string, Account> out;
  std::istringstream lines(read_file(kAclFile));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("user ")) continue;
    std::istringstream words(line);
    std::string word, name;
    words >> word >> name;
    Account& account = out[name];
    while (words >> word) {
      if (word[0] == '~') account.keys.push_back(word.substr(1));
      if (word[0] == '+') account.commands.insert(word.substr(1));
    }
  }
  return out;
}

bool covers(const std::string& pattern, const std::string& key) {
  return fnmatch(pattern.c_str(), key.c_str(), FNM_NOESCAPE) == 0;
}

// One key for each pattern.
std::set<std::string> our_keys() {
  std::set<std::string> out;
  for (const redis::KeyPattern& each : redis::kKeyPatterns) {
    const std::string key = std::regex_replace(std::string(each.pattern), std::regex("\\*"), "x");
    out.insert(key);
  }
  return out;
}

// Collects the command names that `pattern` matches in the files of `folder`, in lower case.
void collect(const std::filesystem::path& folder, const std::string& extension, const std::regex& pattern,
             std::set<std::string>& into) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != extension) continue;
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
      std::string name = (*at)[1].str();
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      into.insert(name);
    }
  }
}

bool allows(const Account& account, const std::string& command) {
  return std::any_of(account.commands.begin(), account.commands.end(), [&](const std::string& each) {
    return each == command || each.starts_with(command + "|");
  });
}

// The server's reply to ACL DRYRUN for `account`: "OK", or the reason for the denial.
std::string dry_run(redis::BlockingRedis& redis, const std::string& account, const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> parts{"ACL", "DRYRUN", account};
  for (std::string word; words >> word;) parts.push_back(word);
  redis::Pipeline command;
  command.command(parts.size());
  for (const std::string& each : parts) command.arg(std::string_view(each));
  const auto replies = redis.call(command);
  if (!replies) return replies.error().detail;
  return std::string(replies->front().string().value_or(replies->front().error()));
}

}  // namespace

TEST_CASE("both accounts may access all our keys, and none of their key patterns is unused", "[acl]") {
  const auto all = accounts();
  REQUIRE(all.size() == 2);
  for (const auto& [name, account] : all) {
    INFO(name);
    for (const std::string& key : our_keys()) {
      INFO(key);
      CHECK(std::any_of(account.keys.begin(), account.keys.end(),
                        [&](const std::string& pattern) { return covers(pattern, key); }));
    }
    for (const std::string& pattern : account.keys) {
      INFO(pattern);
      const auto keys = our_keys();
      CHECK(std::any_of(keys.begin(), keys.end(),
                        [&](const std::string& key) { return covers(pattern, key); }));
      CHECK(pattern != "*");
    }
  }
}

TEST_CASE("the service's account may send every command that our sources send", "[acl]") {
  // Commands of a module, of sentinels, or sent before authentication.
  const std::set<std::string> exempt{"auth",    "sentinel",    "bf.insert",   "bf.mexists",
                                     "bf.info", "bf.scandump", "bf.loadchunk"};
  std::set<std::string> sent;
  // A script may choose between commands, so every literal that Redis knows as a command counts.
  const std::regex in_cpp(R"re((?:\.(?:add|arg)\(|[?:])\s*"([A-Z.]+)")re"),
      in_lua(R"re(['"]([A-Z.]{2,})['"])re");
  for (const char* const folder : {"core", "fcgi"}) {
    collect(kSources / folder, ".cpp", in_cpp, sent);
    collect(kSources / folder, ".h", in_cpp, sent);
  }
  collect(kSources / "core", ".lua", in_lua, sent);
  const RedisServer server;
  const auto is_command = [&](const std::string& word) {
    redis::Pipeline question;
    question.add("COMMAND", "INFO", word);
    const auto reply = redis::BlockingRedis(server.endpoint(), milliseconds(5000), {}).call(question);
    return reply && reply->front()[0].size() > 0;
  };
  sent.insert("zscan");  // sent by freshetctl push-recommendations
  std::erase_if(sent, [&](const std::string& word) { return exempt.contains(word) || !is_command(word); });
  CHECK(sent.size() > 60);
  const auto all = accounts();
  for (const std::string& command : sent) {
    INFO(command);
    CHECK(allows(all.at("freshet"), command));
    CHECK(allows(all.at("freshet-operator"), command));
  }
  std::set<std::string> operator_commands;
  collect(kSources / "scripts" / "ctl", ".cpp", in_cpp, operator_commands);
  for (const std::string& command : operator_commands) {
    if (exempt.contains(command) || !is_command(command)) continue;
    INFO(command);
    CHECK(allows(all.at("freshet-operator"), command));
  }
}

TEST_CASE("Redis accepts the shipped accounts, and they are denied every dangerous command", "[acl]") {
  RedisServer server({"--include", kAclFile.string()});
  redis::BlockingRedis redis(server.endpoint(), milliseconds(5000), {});
  CHECK(read_file(server.directory() / "log").find("Deprecation") == std::string::npos);  // Redis 8 warns
  const std::vector<std::string> dangerous{"FLUSHALL",
                                           "FLUSHDB",
                                           "CONFIG SET dir /tmp",
                                           "CONFIG REWRITE",
                                           "KEYS *",
                                           "SHUTDOWN",
                                           "REPLICAOF no one",
                                           "ACL LIST",
                                           "ACL SETUSER x",
                                           "CLIENT KILL a:1",
                                           "MODULE LIST",
                                           "MONITOR",
                                           "SAVE",
                                           "BGSAVE",
                                           "BGREWRITEAOF",
                                           "SWAPDB 0 1",
                                           "SCRIPT FLUSH",
                                           "DEBUG JMAP",
                                           "FUNCTION FLUSH",
                                           "GET other:key",
                                           "SUBSCRIBE other",
                                           "SET someone:else 1"};
  for (const std::string account : {"freshet", "freshet-operator"}) {
    for (const std::string& line : dangerous) {
      INFO(account << ": " << line);
      CHECK(dry_run(redis, account, line) != "OK");
    }
    for (const std::string line : {"GET hot:pv:a", "SET hot:list x", "HGETALL item:a", "SUBSCRIBE hot:epoch",
                                   "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 hot:rank", "SCAN 0"}) {
      INFO(account << ": " << line);
      CHECK(dry_run(redis, account, line) == "OK");
    }
  }
  for (const std::string line : {"EVAL x 0", "CONFIG GET dir", "DUMP hot:rank"}) {
    INFO(line);
    CHECK(dry_run(redis, "freshet", line) != "OK");
    CHECK(dry_run(redis, "freshet-operator", line) == "OK");
  }
}

TEST_CASE("a shipped account without a password cannot log in", "[acl]") {
  RedisServer server({"--include", kAclFile.string()});
  redis::Endpoint endpoint = server.endpoint();
  for (const std::string account : {"freshet", "freshet-operator"}) {
    endpoint.username = account;
    endpoint.password = "any";
    redis::Pipeline ping;
    ping.add("PING");
    const auto reply = redis::BlockingRedis(endpoint, milliseconds(5000), {}).call(ping);
    REQUIRE_FALSE(reply);
    CHECK(error_of(reply).reason == "redis_noauth");
  }
}
