// FollowStore on Redis. What concerns two ids is several steps, each on the keys of one: of the
// author (who follows, what was published), of the reader (whom they follow, the timeline), of the
// recorder's stream. Every step can be repeated, and they come in an order in which nothing is
// lost: after an error, or a death in between, the same call again does the rest.
//
// follow    look → the reader joins the author's followers, then learns up to where the author is
//           pulled, then the newest items, and the recorder is told → these join the timeline
//           together with the mark that says "followed". An item that is published from the first
//           step on is pushed, or pulled beyond the mark. Who is let go of meanwhile begins anew.
//           Several calls for one reader at once may exceed waterfall.max_follows by their number.
// unfollow  look → the recorder is told, the reader's mark goes, and the reader leaves the author's
//           followers: nothing more joins → what the outboxes have leaves the timeline.
// publish   look, which decides whether the author is pulled → items join the outbox, then what is
//           pulled, and behind both it is looked who follows: they are pushed to, a few more than
//           fanout.max_push when they came meanwhile → the author is said to be pulled, or the job
//           is made and the recorder told.
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
  // `redis` must outlive this. REQUIRES: waterfall.follow_channel is not empty, save for
  // authors_of() and publish().
  RedisFollowStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                   std::function<std::string()> new_job_id);

  Task<Result<void>> follow(const ReaderId& reader, const AuthorId& author) override;
  Task<Result<void>> unfollow(const ReaderId& reader, const AuthorId& author) override;
  Task<Result<std::vector<AuthorId>>> followed_authors(const ReaderId& reader) override;
  Task<Result<std::string>> publish(const AuthorId& author, const std::vector<ItemId>& items) override;

 private:
  // Of XLEN of its stream. Errors: "stream_full".
  Result<void> check_stream_room(const redis::Reply& stream_length) const;
  std::string timeline_key(const ReaderId& reader) const;

  redis::Redis& redis_;
  const TimelineSettings timeline_settings_;
  const FanoutSettings fanout_settings_;
  const redis::Keys keys_;
  const std::int64_t stream_max_;  // of one stream
  const std::function<std::string()> new_job_id_;
};

// Items of authors that join a reader's timeline, and what the reader's marks say then.
struct TimelineJoin {
  struct Author {
    std::string author, mark;  // the mark as it was read, "" for none
    std::int64_t new_mark;         // what it will be
  };
  std::string timeline_key, marks_key;  // keys
  std::vector<Author> authors;
  std::vector<std::string> items;  // the last becomes the newest
};
// Appends follow_join.lua.
void append_join(redis::Pipeline& out, const TimelineSettings& settings, const TimelineJoin& join);

// Appends the script that pushes `ids`, the last as the highest, into one ZSET of
// core/timeline/parts/timeline.lua, of which the newest `most` stay, or all. Its reply: {the
// highest score ever given}.
void append_push(redis::Pipeline& out, const std::string& key, std::optional<std::int64_t> max_ids,
                 const std::vector<std::string_view>& ids);

// Appends the scripts that push `items`, the last as the newest, into `timelines` (keys); those of
// one call share it, 50 at most. `job`, digits: the number of the fan-out, which reaches a timeline
// once, also when it is pushed again. Each reply: {how many are new, how many timelines could not
// be written, why}.
void append_timeline_pushes(redis::Pipeline& out, const redis::Keys& keys, const TimelineSettings& settings,
                            const std::vector<std::string>& timelines,
                            const std::vector<std::string_view>& items, std::string_view job = {});

}  // namespace freshet::timeline
