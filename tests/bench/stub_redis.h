// A stub for Redis in benchmarks of the layers above it. Replies are bytes in RESP, decoded by
// hiredis as in a worker.
#pragma once

#include <hiredis/hiredis.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/redis/redis.h"
#include "core/redis/write_queue.h"

namespace freshet::bench {

inline std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

inline std::string array(std::size_t elements) { return "*" + std::to_string(elements) + "\r\n"; }

// CPU time of this process in µs.
inline double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

template <class T>
T value_or_exit(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "%s: %s\n", std::string(result.error().reason).c_str(), result.error().detail.c_str());
  std::exit(1);
}

class StubRedis : public redis::Redis, public redis::WriteQueue {
 public:
  using Command = std::vector<std::string>;

  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    redis::Replies out;
    for (std::size_t i = 0; i < pipeline.size(); ++i) {
      const std::string bytes = reply_to(parse_command(pipeline.at(i)));
      redisReader* const decoder = redisReaderCreate();
      void* reply = nullptr;
      redisReaderFeed(decoder, bytes.data(), bytes.size());
      redisReaderGetReply(decoder, &reply);
      redisReaderFree(decoder);
      out.emplace_back(static_cast<redisReply*>(reply));
    }
    co_return out;
  }
  bool ready() const override { return true; }
  bool post(redis::Pipeline, std::vector<redis::SpoolRecord>, OnReplies) override { return true; }
  Result<void> spool(const redis::SpoolRecord&) override { return {}; }

 private:
  virtual std::string reply_to(const Command& command) const = 0;

  static Command parse_command(std::string_view resp) {
    Command out;
    for (std::size_t at = resp.find('$'); at < resp.size();) {
      const std::size_t bytes = std::strtoul(resp.data() + at + 1, nullptr, 10);
      at = resp.find('\n', at) + 1;
      out.emplace_back(resp.substr(at, bytes));
      at += bytes + 2;
    }
    return out;
  }
};

}  // namespace freshet::bench
