// FollowStore on Redis. Operations that concern two ids take several steps, each on the keys of one
// id: the author (followers, published items), the reader (followed authors, timeline), or the
// recorder's stream. Every step is idempotent, and the order of steps loses nothing: after an error
// or a crash, repeating the call completes the operation.
//
// follow     Read → add the reader to the author's followers, then read up to where the author is
// pulled, then the newest items, and append to the recorder's stream → add these items to the
// timeline together with the mark that records the follow. An item published after the first write
// is pushed, or pulled because it is beyond the mark. If the reader unfollows concurrently,
// follow() restarts. Concurrent calls for one reader may exceed waterfall.max_follows by their
// number.
//
// unfollow   Read → append to the recorder's stream, remove the reader's mark, and remove the
// reader from the author's followers, so that no further items arrive → remove the items in the
// author's outboxes from the timeline.
//
// publish    Read, and decide whether the author is pulled → add the items to the outbox, then to
// the pull outbox if the author is pulled, then count the followers. Items are pushed to all of
// them, which may be a few more than fanout.max_push if readers follow concurrently → list the
// author as pulled, or create the job and append it to the recorder's stream.
#pragma once

#include <cstdint>
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
  // `redis` must outlive this. REQUIRES: waterfall.follow_channel is not empty, except for
  // followed_authors() and publish().
  RedisFollowStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                   std::function<std::string()> new_job_id);

  Task<Result<void>> follow(const ReaderId& reader, const AuthorId& author) override;
  Task<Result<void>> unfollow(const ReaderId& reader, const AuthorId& author) override;
  Task<Result<std::vector<AuthorId>>> followed_authors(const ReaderId& reader) override;
  Task<Result<std::string>> publish(const AuthorId& author, const std::vector<ItemId>& items) override;

 private:
  // Checks XLEN of the recorder's stream. Errors: "stream_full".
  Result<void> check_stream_room(const redis::Reply& stream_length) const;
  std::string timeline_key(const ReaderId& reader) const;

  redis::Redis& redis_;
  const TimelineSettings timeline_settings_;
  const FanoutSettings fanout_settings_;
  const redis::Keys keys_;
  const std::int64_t stream_max_;  // per stream
  const std::function<std::string()> new_job_id_;
};

// Items of authors to add to a reader's timeline, and the reader's new marks of these authors.
struct TimelineJoin {
  struct Author {
    std::string author, mark;  // the mark as read; empty if the author is not followed
    std::int64_t new_mark;
  };
  std::string timeline_key, marks_key;
  std::vector<Author> authors;
  std::vector<std::string> items;  // the last becomes the newest
};
// Appends follow_join.lua.
void append_join(redis::Pipeline& out, const TimelineSettings& settings, const TimelineJoin& join);

// Appends follow_withdraw.lua: removes `items` of `author` from the reader's timeline, unless the
// reader follows the author (again).
void append_withdrawal(redis::Pipeline& out, const redis::Keys& keys, const TimelineSettings& settings,
                       std::string_view reader, std::string_view author,
                       const std::vector<std::string_view>& items);

// Appends the script that pushes `ids`, the last with the highest score, to a ZSET in the format of
// core/timeline/parts/timeline.lua. Keeps the newest `max_ids`, or all. Reply: {the highest score
// ever given}.
void append_push(redis::Pipeline& out, const std::string& key, std::optional<std::int64_t> max_ids,
                 const std::vector<std::string_view>& ids);

// Appends the scripts that push `items`, the last as the newest, to `timelines` (keys). Timelines
// of the same slot share a call, 50 at most. `job`: number of the fan-out, as digits; pushing the
// same job to a timeline again has no effect. Each reply: {number of new items, number of timelines
// that could not be written, error}.
void append_timeline_pushes(redis::Pipeline& out, const redis::Keys& keys, const TimelineSettings& settings,
                            const std::vector<std::string>& timelines,
                            const std::vector<std::string_view>& items, std::string_view job = {});

}  // namespace freshet::timeline
