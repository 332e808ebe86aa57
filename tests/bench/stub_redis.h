// A Redis in memory, for benchmarks of what stands above it: replies as bytes, decoded as the
// worker does.
#pragma once

#include <hiredis/hiredis.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/redis/write_queue.h"
#include "core/redis/redis.h"

namespace freshet::bench {

inline std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

inline std::string array(std::size_t elements) { return "*" + std::to_string(elements) + "\r\n"; }

// Of this process.
inline double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "%s: %s\n", std::string(result.error().reason).c_str(), result.error().detail.c_str());
  std::exit(1);
}

class Answers : public redis::Redis, public redis::WriteQueue {
 public:
  using Words = std::vector<std::string>;  // of a command

  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    redis::Replies out;
    for (std::size_t i = 0; i < pipeline.size(); ++i) {
      const std::string answer = answer_to(words_of(pipeline.at(i)));
      redisReader* const decoder = redisReaderCreate();
      void* reply = nullptr;
      redisReaderFeed(decoder, answer.data(), answer.size());
      redisReaderGetReply(decoder, &reply);
      redisReaderFree(decoder);
      out.emplace_back(static_cast<redisReply*>(reply));
    }
    co_return out;
  }
  bool ready() const override { return true; }
  bool post(redis::Pipeline, redis::SpoolRecord) override { return true; }
  Result<void> spool(const redis::SpoolRecord&) override { return {}; }

 private:
  virtual std::string answer_to(const Words& words) const = 0;

  static Words words_of(std::string_view resp) {
    Words out;
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
