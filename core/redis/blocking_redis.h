// Blocking Redis client for freshetctl, the recorder and tests. Same interface as RedisConnection,
// or as ClusterRedis for a cluster, but run() never suspends.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/base/time.h"
#include "core/redis/redis.h"
#include "core/redis/redis_url.h"

struct redisContext;

namespace freshet::redis {

// Connects on first use. An error or timeout closes the connection and the next run() makes a new
// one, so a reply cannot reach the wrong command. Not thread-safe; must be created after fork.
class BlockingRedis final : public Redis {
 public:
  // `scripts` are loaded when a command finds its script missing; they must outlive this. `timeout`
  // applies to connecting and to each wait for data. With sentinels each connection asks them first
  // and accepts only a server that reports the role master. In a cluster, the nodes of a pipeline
  // are used one after the other, and no command is retried later than `timeout` after the call.
  BlockingRedis(Endpoint endpoint, milliseconds timeout, std::span<const Script> scripts);
  ~BlockingRedis() override;

  Task<Result<Replies>> run(const Pipeline& pipeline) override;
  bool ready() const override { return context_ != nullptr || cluster_ != nullptr; }
  // run() without a coroutine. Blocks.
  Result<Replies> call(const Pipeline& pipeline);
  // call() for commands that must all succeed: the first error reply is returned, mapped by
  // classify().
  Result<Replies> call_all(const Pipeline& pipeline);
  // call() for commands that may fail one by one (such as a key of another type); the caller checks
  // each reply. An error only if the server refuses all of them (LOADING, NOAUTH, …).
  Result<Replies> call_each(const Pipeline& pipeline);

 private:
  struct Cluster;
  struct Closer {
    void operator()(redisContext* context) const noexcept;
  };
  Result<void> connect();
  Result<void> perform_handshake(bool must_be_master);
  Result<Replies> call_standalone(const Pipeline& pipeline);
  Result<Replies> exchange(const Pipeline& pipeline);
  Result<void> load_scripts();

  const Endpoint endpoint_;
  const milliseconds timeout_;
  const std::span<const Script> scripts_;
  std::unique_ptr<redisContext, Closer> context_;  // null in cluster mode
  std::unique_ptr<Cluster> cluster_;               // null unless in cluster mode
};

// Returns the result of a task that never suspends, as those that only use a BlockingRedis.
// REQUIRES: it does not suspend.
template <class T>
T run_sync(Task<T> task) {
  std::optional<T> result;
  std::exception_ptr thrown;
  spawn([](Task<T> inner, std::optional<T>& out) -> Task<void> { out.emplace(co_await inner); }(
                                                     std::move(task), result),
        [&thrown](std::exception_ptr error) { thrown = error; });
  if (thrown) std::rethrow_exception(thrown);
  return std::move(*result);
}

}  // namespace freshet::redis
