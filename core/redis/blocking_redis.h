// The blocking Redis, for freshetctl, the recorder and tests: the same interface as
// RedisConnection, or as ClusterRedis where the endpoint is a cluster, but run() never suspends.
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

// Connects when first needed. Any error or timeout destroys the connection; the next run() makes a
// new one, so no reply can reach the wrong command. Not thread-safe; made after fork.
class BlockingRedis final : public Redis {
 public:
  // `scripts` are loaded when a command finds its script missing; they must outlive this. `timeout`
  // bounds connecting and each wait for bytes. With sentinels each connection asks them first, and
  // is made only to a server that calls itself master. Of a cluster the nodes of a pipeline are
  // asked one after the other, and no command is sent again later than `timeout` after the first.
  BlockingRedis(Endpoint endpoint, milliseconds timeout, std::span<const Script> scripts);
  ~BlockingRedis() override;

  Task<Result<Replies>> run(const Pipeline& pipeline) override;
  bool ready() const override { return context_ != nullptr || cluster_ != nullptr; }
  // run() for callers that are no coroutines. Blocks.
  Result<Replies> call(const Pipeline& pipeline);
  // call() of commands none of which may be refused: else the first refusal, as classify() has it.
  Result<Replies> call_all(const Pipeline& pipeline);
  // call() of commands that may be refused one by one (a key of another type), which is left to the
  // caller; a server that refuses all of them (LOADING, NOAUTH, …) is an error.
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
  std::unique_ptr<redisContext, Closer> context_;  // null with a cluster
  std::unique_ptr<Cluster> cluster_;               // null without
};

// The result of a task that never suspends, as all are that only use a SyncRedis. REQUIRES: it does
// not suspend.
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
