// FollowStore on Redis. Each method is one EVALSHA of follow_*.lua, where its promises
// stand.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/timeline/ports.h"

namespace freshet::timeline {

class RedisFollowStore final : public FollowStore {
 public:
  // `redis` must outlive this. REQUIRES: waterfall.follow_channel is not empty, save for authors_of() and
  // publish().
  RedisFollowStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                   std::function<std::string()> new_job_id);

  Task<Result<void>> follow(const ReaderId& reader, const AuthorId& author) override;
  Task<Result<void>> unfollow(const ReaderId& reader, const AuthorId& author) override;
  Task<Result<std::vector<AuthorId>>> authors_of(const ReaderId& reader) override;
  Task<Result<std::string>> publish(const AuthorId& author, const std::vector<ItemId>& items) override;

 private:
  void append_keys_of_both(redis::Pipeline& out, const ReaderId& reader, const AuthorId& author) const;
  std::string timeline_of(const ReaderId& reader) const;
  // Runs commands none of which may fail; their replies. 1 RTT.
  Task<Result<redis::Replies>> all_of(const redis::Pipeline& commands);

  redis::Redis& redis_;
  const WaterfallSettings waterfall_;
  const FanoutSettings fanout_;
  const std::int64_t stream_max_;
  const redis::Keys keys_;
  const std::function<std::string()> new_job_id_;
};

// Appends the script that pushes `ids`, the last as the highest, into one ZSET of lua/parts/timeline.lua.
// Without `most` any number stays; without `ttl` a new key is permanent. Its reply: how many were new, and
// the highest score ever given.
void append_push(redis::Pipeline& out, const std::string& key, std::optional<std::int64_t> most,
                 std::optional<seconds> ttl, const std::vector<std::string_view>& ids);

}  // namespace freshet::timeline
