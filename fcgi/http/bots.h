// Which User-Agents are crawlers: the public list crawler-user-agents (crawlers.txt, MIT;
// scripts/update_crawlers renews it), compiled into one automaton (RE2::Set), with a cache by agent string in
// front. A site's own agents that the list would catch are excepted by `bots.allow`.
//
// Made once in the master, before fork: compiling takes some 20 ms, and workers then share the pages of the
// program. What a worker adds is its own part of the automaton's states, which RE2 builds as agents come and
// drops at kMaxMemory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet::http {

class BotMatcher {
 public:
  // `allow`: RE2 patterns, found anywhere in the agent, of agents that count although the list knows them.
  // Error: kInvalid, "bad_pattern", detail with the pattern and what is wrong.
  static Result<BotMatcher> create(const std::vector<std::string>& allow);

  BotMatcher(BotMatcher&&) noexcept;
  BotMatcher& operator=(BotMatcher&&) noexcept;
  ~BotMatcher();

  // True iff a pattern of the list is found in `agent` and no allowed one. An empty agent is not a bot.
  // Agents are matched by their first kMaxAgentBytes. Some 20 ns when cached, tens of microseconds otherwise.
  // Not thread-safe.
  bool is_bot(std::string_view agent);

  static constexpr std::size_t kMaxAgentBytes = 1024;
  static constexpr std::size_t kCacheEntries = 4096;  // 32 KiB
  // RE2's budget for program and states, of which measure: build/… test_http "[.bench]" prints time and
  // memory.
  static constexpr std::int64_t kMaxMemory = 8 << 20;

 private:
  struct Sets;
  explicit BotMatcher(std::unique_ptr<Sets> sets);
  std::unique_ptr<Sets> sets_;
  // By the low bits of the agent's hash: the hash itself, its lowest bit replaced by the answer. 0: empty.
  std::vector<std::uint64_t> cache_;
};

// The patterns of crawlers.txt, in its order.
std::vector<std::string_view> crawler_patterns();

}  // namespace freshet::http
