// What a site owes its readers: to show them all that is kept about them, and to forget it. A store
// on Redis and the recorder's database; no port stands before it, since nothing else does this.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/async/blocking_pool.h"
#include "core/config/settings.h"
#include "core/readers/personal_keys.h"
#include "core/readers/ports.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::readers {

inline constexpr std::size_t kMostExportedKeys = 1000;
inline constexpr std::int64_t kMostExportedValues = 5000;  // of a list or ZSET; others are capped lower
inline constexpr std::int64_t kMostExportedRows = 20000;   // interactions; likewise dismissals and follows

// A key of Redis with all that it holds: a string's value; a list's elements; a hash's and a ZSET's
// names and values in turn, without a timeline's marks; of a set or ZSET of many readers' names
// only this one's.
struct StoredKey {
  std::string_view what;  // it is, in words
  std::string name;
  std::string type;  // as TYPE answers
  std::vector<std::string> values;
};

struct Export {
  std::vector<StoredKey> keys;
  bool more_keys = false;  // there are more than an export shows
  // Why the durable rows are missing; empty: they are here. On a host without the database always,
  // with the name of the one that records.
  std::string no_database;
  std::vector<ReaderEvent> interactions;  // oldest first
  std::optional<std::int64_t> next;       // the number of the first interaction that is not shown
  std::vector<DismissedAt> dismissals;
  std::vector<Follow> follows;
};

struct Job {
  std::string state;  // queued | running | waiting | done | failed
  std::int64_t done = 0, total = 0, failed = 0;
  // Of an erasure that is done but for them, "waiting": whose spools may still hold something of
  // the reader, which is void.
  std::vector<std::string> hosts;
};

class Users {
 public:
  // All references must outlive this. `redis`: a connection with patience. `pool`: the database is
  // read on it.
  Users(redis::Redis& redis, BlockingPool& pool, const Settings& settings, redis::Keys keys,
        ReaderHashes hashes, std::function<std::string()> new_job_id);

  // Interactions from the number `from` on; the rest with each. Walks over all keys of Redis:
  // O(keys), 2 RTT a thousand of them.
  Task<Result<Export>> gather(const ReaderId& reader, std::int64_t from);
  // Makes a job that forgets everything about the reader (core/recorder/eraser.h), and returns its
  // id; what was written before is gone when it is done. Somebody unknown is forgotten likewise.
  // What any host's spool still holds of them is void from now on, by a tombstone. 2 RTT. Errors:
  // kUnavailable "stream_full"; Redis' own.
  Task<Result<std::string>> forget(const ReaderId& reader);
  // 1 RTT. Errors: kNotFound "unknown_job".
  Task<Result<Job>> job(const EventId& id);

 private:
  Task<Result<void>> read_keys(const std::vector<std::string>& keys, Export& out);
  Task<Result<void>> read_members(const std::vector<Membership>& sets, const Names& names, Export& out);
  Task<void> read_rows(const ReaderId& reader, std::int64_t from, Export& out);

  redis::Redis& redis_;
  BlockingPool& pool_;
  const RecorderSettings recorder_;
  const SpoolSettings spool_;
  const redis::Keys keys_;
  const ReaderHashes hashes_;
  const std::function<std::string()> new_job_id_;
};

// Whether the reader of this tombstone (Keys::erased) was erased after what happened so long ago.
// Within two minutes the erasure wins: clocks may differ by as much. 1 RTT.
Task<Result<bool>> was_erased(redis::Redis& redis, const std::string& tombstone, milliseconds age);

}  // namespace freshet::readers
