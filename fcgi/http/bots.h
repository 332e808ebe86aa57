// Which User-Agents are crawlers: the public list crawler-user-agents (crawlers.txt, MIT;
// scripts/update_crawlers renews it), compiled into one automaton (RE2::Set), with a cache by agent
// string in front. A site's own agents that the list would catch are excepted by `bots.allow`.
//
// Made once in the master, before fork: compiling takes some 20 ms, and workers then share the
// pages of the program. What a worker adds is its own part of the automaton's states, which RE2
// builds as agents come and drops at kMaxMemory.
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
  // `allow`: RE2 patterns, found anywhere in the agent, of agents that count although the list
  // knows them. Error: kInvalid, "bad_pattern", detail with the pattern and what is wrong.
  static Result<BotMatcher> create(const std::vector<std::string>& allow);

  BotMatcher(BotMatcher&&) noexcept;
  BotMatcher& operator=(BotMatcher&&) noexcept;
  ~BotMatcher();

  // True iff a pattern of the list is found in `agent` and no allowed one. An empty agent is not a
  // bot. Agents are matched by their first kMaxAgentBytes. Some 50 ns when cached, 1 to 50 µs
  // otherwise. Not thread-safe.
  bool is_bot(std::string_view agent);

  static constexpr std::size_t kMaxAgentBytes = 1024;
  static constexpr std::size_t kCacheEntries = 4096;  // 32 KiB
  // RE2's budget for program and states together; when it is full the states are dropped and built
  // anew, matches stay right. Measured with the 1,033 agents of Deskdrop's readers and the 2,116
  // examples of the list, one after the other:
  //
  //   budget   program (shared)   states, readers   states, both   a new reader   a new crawler
  //   2 MiB    1.5 MiB            40 KiB            0.9 MiB        10 us          32 us
  //   4 MiB    1.5 MiB            40 KiB            3.0 MiB         1 us          46 us
  //   8 MiB    1.5 MiB            40 KiB            7.2 MiB         1 us          40 us
  //
  // Again by: test_http "[.bench]"
  static constexpr std::int64_t kMaxMemory = 4 << 20;

 private:
  struct Sets;
  explicit BotMatcher(std::unique_ptr<Sets> sets);
  std::unique_ptr<Sets> sets_;
  // By the low bits of the agent's hash: the hash itself, its lowest bit replaced by the answer. 0:
  // empty.
  std::vector<std::uint64_t> cache_;
};

// The patterns of crawlers.txt, in its order.
std::vector<std::string_view> crawler_patterns();

}  // namespace freshet::http
