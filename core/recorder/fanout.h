// Pushing what authors publish to their followers: the jobs of op fanout
// (core/readers/reader_entries.h).
//
// Jobs go strictly first in, first out, some followers at a time; between them the recorder goes on
// with what else stands in the stream. A job walks follow:readers:{author} by score, which is the
// order of following, from its cursor up to `upto`, whoever was the last when the author published.
// Who follows later is above that, and has it by back-fill; who left meanwhile is left out.
//
// A job's entry stays pending until the job is done, and its cursor stands in job:{id}. One script
// pushes to some followers and moves the cursor, if it still is where this process believes it to
// be: whatever is killed, Redis or the recorder, nobody is left out and nobody served twice, not
// even who took the item out of their timeline meanwhile. A job whose hash has expired begins
// again: some are pushed to again, which changes nothing but that an item which was removed in that
// moment comes back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/recorder/batch.h"
#include "core/redis/keys.h"
#include "core/redis/sync_redis.h"

namespace freshet::recorder {

inline constexpr std::size_t kChunkReaders = 100;
inline constexpr std::size_t kChunkPushes = 1000;  // readers times items: about two milliseconds of Redis

// Blocking; one thread.
class Pusher {
 public:
  Pusher(const Settings& settings, redis::Endpoint endpoint);

  // Takes jobs; one that waits already is known by its entry.
  void add(std::vector<Fanout> fanouts);
  std::size_t waiting() const { return waiting_.size(); }  // their entries are pending
  void clear() {
    waiting_.clear();
    progress_.reset();
  }
  // The entry of the job that is next, or under way; "": there is none.
  std::string first() const { return waiting_.empty() ? std::string() : waiting_.front().entry; }

  // Pushes to the next followers of the first job. True: it is over, its hash says how, and its
  // entry is to be acknowledged, then forgotten by finished(). REQUIRES: waiting() > 0. 2 RTT; one
  // more for a job that begins. After an error the same followers are next. Errors: those of Redis.
  Result<bool> step();
  void finished();

 private:
  struct Progress {  // as job:{id} has it
    std::string cursor = "0";
    std::int64_t done = 0, total = 0, failed = 0;
  };
  struct Follower {
    std::string reader, score;
  };
  Result<bool> advance();
  Result<bool> begin();  // true: it is over
  Result<std::vector<Follower>> next_followers();
  Result<bool> push(const std::vector<Follower>& followers, bool last);
  Result<bool> give_up(const Error& why);
  std::size_t chunk() const;
  std::string timeline_of(const Follower& follower) const;

  redis::SyncRedis redis_;
  const redis::Keys keys_;
  const WaterfallSettings waterfall_;
  std::vector<Fanout> waiting_;       // in the order of their entries
  std::optional<Progress> progress_;  // of the first; nullopt: to be read
};

}  // namespace freshet::recorder
