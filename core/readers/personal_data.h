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

inline constexpr std::size_t kMaxExportedKeys = 1000;
inline constexpr std::int64_t kMaxExportedValues = 5000;  // of a list or ZSET; others are capped lower
inline constexpr std::int64_t kMaxExportedRows = 20000;   // interactions; likewise dismissals and follows

// A key of Redis with all that it holds: a string's value; a list's elements; a hash's and a ZSET's
// names and values in turn, without a timeline's marks; of a set or ZSET of many readers' names
// only this one's.
struct ExportedKey {
  std::string_view description;  // it is, in words
  std::string name;
  std::string type;  // as TYPE answers
  std::vector<std::string> values;
};

struct Export {
  std::vector<ExportedKey> keys;
  bool has_more_keys = false;  // there are more than an export shows
  // Why the durable rows are missing; empty: they are here. On a host without the database always,
  // with the name of the one that records.
  std::string rows_missing_reason;
  std::vector<ReaderEvent> interactions;  // oldest first
  std::optional<std::int64_t> next_interaction;       // the number of the first interaction that is not shown
  std::vector<DismissalRecord> dismissals;
  std::vector<Follow> follows;
};

struct Job {
  std::string state;  // queued | running | waiting | done | failed
  std::int64_t done = 0, total = 0, failed = 0;
  // Of an erasure that is done but for them, "waiting": whose spools may still hold something of
  // the reader, which is void.
  std::vector<std::string> pending_hosts;
};

class PersonalData {
 public:
  // All references must outlive this. `redis`: a connection with patience. `pool`: the database is
  // read on it.
  PersonalData(redis::Redis& redis, BlockingPool& pool, const Settings& settings, redis::Keys keys,
        ReaderPseudonyms pseudonyms, std::function<std::string()> new_job_id);

  // Interactions from the number `from` on; the rest with each. Walks over all keys of Redis:
  // O(keys), 2 RTT a thousand of them.
  Task<Result<Export>> collect(const ReaderId& reader, std::int64_t from);
  // Makes a job that forgets everything about the reader (core/recorder/erasure_worker.h), and returns its
  // id; what was written before is gone when it is done. Somebody unknown is forgotten likewise.
  // What any host's spool still holds of them is void from now on, by a tombstone. 2 RTT. Errors:
  // kUnavailable "stream_full"; Redis' own.
  Task<Result<std::string>> request_erasure(const ReaderId& reader);
  // 1 RTT. Errors: kNotFound "unknown_job".
  Task<Result<Job>> job(const EventId& id);

 private:
  Task<Result<void>> read_keys(const std::vector<std::string>& keys, Export& out);
  Task<Result<void>> read_members(const std::vector<MemberSet>& sets, const ReaderNames& names, Export& out);
  Task<void> read_rows(const ReaderId& reader, std::int64_t from, Export& out);

  redis::Redis& redis_;
  BlockingPool& pool_;
  const RecorderSettings recorder_settings_;
  const SpoolSettings spool_settings_;
  const redis::Keys keys_;
  const ReaderPseudonyms pseudonyms_;
  const std::function<std::string()> new_job_id_;
};

// Whether the reader of this tombstone (Keys::erased) was erased after what happened so long ago.
// Within two minutes the erasure wins: clocks may differ by as much. 1 RTT.
Task<Result<bool>> was_erased(redis::Redis& redis, const std::string& tombstone, milliseconds age);

}  // namespace freshet::readers
