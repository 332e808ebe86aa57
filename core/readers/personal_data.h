// Export and erasure of everything stored about a reader, from Redis and the recorder's database.
// It has no port, since it is the only implementation.
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
#include "core/readers/reader_entries.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/redis/write_queue.h"

namespace freshet::readers {

// Per list or ZSET; other types have smaller limits of their own.
inline constexpr std::int64_t kMaxExportedValues = 5000;
// Interactions; the same limit for dismissals and for follows.
inline constexpr std::int64_t kMaxExportedRows = 20000;

// A Redis key with its contents: a string's value; a list's elements; names and values of a hash or
// ZSET, alternating, without a timeline's marks. For sets of many readers, only this reader's
// entry.
struct ExportedKey {
  std::string_view description;  // for the reader
  std::string name;
  std::string type;  // as TYPE returns it
  std::vector<std::string> values;
};

struct Export {
  std::vector<ExportedKey> keys;
  // Why the database rows are missing; empty if they are included. Always set on hosts without the
  // database, with the name of the recording host.
  std::string rows_missing_reason;
  std::vector<ReaderEvent> interactions;  // oldest first
  // Number of the first interaction not included; nullopt: all are included.
  std::optional<std::int64_t> next_interaction;
  std::vector<DismissalRecord> dismissals;
  std::vector<Follow> follows;
};

struct Job {
  std::string state;  // queued | running | waiting | done | failed
  std::int64_t done = 0, total = 0, failed = 0;
  // Merges only: how many of each of kMovedKinds were moved so far.
  std::vector<std::int64_t> moved;
  // With state "waiting" only: the erasure is done except for the spools of these hosts, which may
  // still hold events of the reader. Those events are void.
  std::vector<std::string> pending_hosts;
};

// Result of merge_on_login(). kMoved: everything about the visitor is with another reader.
enum class LoginMerge : std::uint8_t { kNothing, kRunning, kMoved };

class PersonalData {
 public:
  // All references must outlive this. `redis`: a connection with long timeouts. `pool`: runs the
  // database reads.
  PersonalData(redis::Redis& redis, BlockingPool& pool, const Settings& settings, redis::Keys keys,
               ReaderPseudonyms pseudonyms, std::function<std::string()> new_job_id);

  // Exports interactions from number `from` on, and everything else every time, except keys that
  // name an article before the reader (sessions, event ids and the like, which expire within days
  // and only a scan of all keys would find; an erasure removes them). No database rows for an
  // anonymous reader. 3 RTT.
  Task<Result<Export>> collect(const ReaderId& reader, std::int64_t from);
  // Deletes what is stored about an anonymous reader, and about the visitor that they are counted
  // as, except keys that name an article first. Voids their events in all hosts' spools, and makes
  // the seen filter forget them. Nothing of theirs is in the stream or the database. 2 RTT. With
  // `may_be_stored` false (http::RateLimiter::may_store_anonymous) the reader has nothing in flight
  // or spooled, so if no key exists either, this writes nothing: 1 RTT.
  Task<Result<void>> erase_anonymous(const ReaderId& reader, bool may_be_stored);
  // Has erase_anonymous() delete the keys again through `write_queue`, once or twice kSettleTime
  // later: workers may still be writing what they had accepted before. flush() deletes them now.
  void erase_again(redis::WriteQueue& write_queue, redis::RunAfter after);
  void flush();
  // Creates a job that erases everything about the reader (core/recorder/erasure_worker.h) and
  // returns its id. All data written before the call has been erased when the job is done. Unknown
  // readers are accepted too. Writes a tombstone that voids events in all hosts' spools. 2 RTT.
  // Errors: kUnavailable "stream_full"; Redis' own.
  Task<Result<std::string>> request_erasure(const ReaderId& reader);
  // Creates a job that moves everything about a reader to another one
  // (core/recorder/merge_worker.h), and returns its id. Merging an unknown reader, or one into
  // itself, moves nothing. 2 RTT. Errors: kUnavailable "stream_full"; Redis' own.
  Task<Result<std::string>> request_merge(const ReaderId& from, const ReaderId& to);
  // For a request of a signed-in reader with a visitor cookie: requests a merge of the visitor's
  // reader if something about them changed within identity.merge_window. One merge at a time,
  // however often it is called. 1 RTT; 4 if it starts one.
  Task<Result<LoginMerge>> merge_on_login(const ReaderId& visitor, const ReaderId& account);
  // Readers who were merged into this one within kPendingTtl: the last kMaxMergedNames. 1 RTT.
  Task<Result<std::vector<ReaderId>>> merged_readers(const ReaderId& reader);
  // 1 RTT. Errors: kNotFound "unknown_job".
  Task<Result<Job>> job(const EventId& id);

 private:
  std::vector<std::string> keys_about(const ReaderId& reader) const;
  Task<Result<void>> read_keys(const std::vector<std::string>& keys, Export& out);
  Task<Result<void>> read_memberships(const ReaderId& reader, Export& out);
  // When something about the reader last changed; nullopt: nothing is stored. 1 RTT.
  struct ReaderAge {
    std::optional<seconds> since_change;
    bool merged = false;  // into another reader, within spool.max_age
  };
  Task<Result<ReaderAge>> read_age(const ReaderId& reader);
  Task<void> read_rows(const ReaderId& reader, std::int64_t from, Export& out);
  void on_settled();

  redis::Redis& redis_;
  BlockingPool& pool_;
  const RecorderSettings recorder_settings_;
  const std::vector<std::string> channels_;
  const SpoolSettings spool_settings_;
  const ReaderSettings reader_settings_;
  const seconds merge_window_, history_ttl_, feed_ttl_;
  const redis::Keys keys_;
  const ReaderPseudonyms pseudonyms_;
  const std::function<std::string()> new_job_id_;
  redis::WriteQueue* write_queue_ = nullptr;  // set with settle_timer_
  std::optional<redis::FlushTimer> settle_timer_;
  std::vector<ReaderId> erased_, settling_;  // their keys will be deleted again
};

// True if the reader with this tombstone (Keys::tombstone) was erased after an event of this age.
// Within two minutes the erasure wins, since clocks may differ by that much. 1 RTT.
Task<Result<bool>> was_erased(redis::Redis& redis, const std::string& tombstone, milliseconds age);

}  // namespace freshet::readers
