// Measures what a request costs Redis in counts, not in time: commands, round trips, bytes of the
// append-only file. Counts have no noise, so tests pin them: a change that adds a command has to
// change a number here and say why.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "core/redis/blocking_redis.h"
#include "core/redis/fields.h"
#include "core/redis/redis.h"
#include "core/redis/scripts.h"
#include "tests/support/redis_server.h"

namespace freshet::test {

struct Cost {
  std::map<std::string, std::int64_t> calls;  // executed commands by name: "get" → 2
  std::int64_t round_trips = 0;               // run() calls of CostMeter::redis
  std::int64_t aof_bytes = 0;                 // growth of the append-only file

  // Executed commands, including those that scripts call but not the script calls themselves.
  std::int64_t commands() const {
    std::int64_t out = 0;
    for (const auto& [name, count] : calls) out += name == "evalsha" ? 0 : count;
    return out;
  }
  // For INFO(): "get 2, hget 1".
  std::string text() const {
    std::string out;
    for (const auto& [name, count] : calls)
      out.append(out.empty() ? "" : ", ").append(name).append(" ").append(std::to_string(count));
    return out;
  }
};

// Counts run() calls.
class CountingRedis final : public redis::Redis {
 public:
  explicit CountingRedis(redis::BlockingRedis& inner) : inner_(inner) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    ++round_trips;
    auto replies = co_await inner_.run(pipeline);
    co_return replies;
  }
  bool ready() const override { return true; }
  std::int64_t round_trips = 0;

 private:
  redis::BlockingRedis& inner_;
};

// A private server with an append-only file, and the cost of the commands that it executes.
class CostMeter {
 public:
  CostMeter() { flush(); }
  void flush() {
    server_.flush_all();
    redis::Pipeline load;
    for (const redis::Script& each : redis::kAllScripts) load.add("SCRIPT", "LOAD", each.source);
    REQUIRE(direct.call_all(load));
  }
  // The cost of `work` over `redis`, including asynchronous writes over `direct`. Expiring keys
  // count as commands, so no key must expire during `work`.
  Cost measure(const std::function<void()>& work) {
    redis::Pipeline persistence_query, reset;
    persistence_query.add("INFO", "persistence");
    reset.add("CONFIG", "RESETSTAT");
    const std::int64_t before = field(persistence_query, "aof_current_size:");
    REQUIRE(direct.call_all(reset));
    redis.round_trips = 0;
    work();
    Cost out;
    out.round_trips = redis.round_trips;
    redis::Pipeline stats;
    stats.add("INFO", "commandstats");
    const std::string lines = info(stats);
    for (std::size_t at = lines.find("cmdstat_"); at != lines.npos; at = lines.find("cmdstat_", at + 1)) {
      const std::string_view line = std::string_view(lines).substr(at + 8, lines.find('\r', at) - at - 8);
      const std::size_t colon = line.find(":calls=");
      const std::string name(line.substr(0, colon));
      if (name == "info" || name == "config|resetstat") continue;  // sent by this class
      const std::string_view count = line.substr(colon + 7);
      out.calls[name] = redis::parse_or_zero<std::int64_t>(count.substr(0, count.find(',')));
    }
    out.aof_bytes = field(persistence_query, "aof_current_size:") - before;
    return out;
  }

 private:
  std::string info(const redis::Pipeline& command) {
    const auto replies = direct.call_all(command);
    REQUIRE(replies);
    return std::string(replies->front().string().value_or(""));
  }
  std::int64_t field(const redis::Pipeline& command, std::string_view name) {
    const std::string lines = info(command);
    const std::size_t at = lines.find(name);
    REQUIRE(at != lines.npos);
    const std::string_view rest = std::string_view(lines).substr(at + name.size());
    return redis::parse_or_zero<std::int64_t>(rest.substr(0, rest.find('\r')));
  }
  // The file is written before each reply, but never waits for the disk.
  RedisServer server_{{"--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"}};

 public:
  redis::BlockingRedis direct{server_.endpoint(), milliseconds(10000), redis::kAllScripts};
  CountingRedis redis{direct};  // for the measured code
};

}  // namespace freshet::test
