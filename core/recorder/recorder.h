// Makes items and readers' interactions durable. Reads the streams that every write adds an entry
// to (core/items/item_store.h, core/readers/reader_entries.h), and writes SQLite and the search
// index. It is the only writer of both, guarded by a lease (lease.h). It also erases readers
// (erasure_worker.h) and pushes what authors publish (fanout_worker.h).
//
// Each batch is committed to SQLite. The index commits a quarter of a second of batches together
// (kIndexCommitInterval). Then their entries are acknowledged, and each stream is trimmed after the
// last acknowledged one. If the recorder is killed in between, the entries are still pending and
// are processed again, in order, before new ones. Processing is idempotent.
#pragma once

#include <atomic>
#include <memory>

#include "core/base/recorder_report.h"
#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/recorder/erasure_worker.h"
#include "core/recorder/lease.h"
#include "core/redis/redis_url.h"

namespace freshet::recorder {

// From a commit of the index to the first change of the next. Xapian's readers survive one commit;
// the next one overwrites the replaced blocks. A search that starts with the newest commit may
// therefore take this long without failing because of the writer (core/feed/recall_source.h).
inline constexpr milliseconds kIndexCommitInterval{250};

// Blocking. run() creates its connections and opens its files, so construct and run it after the
// fork.
class Recorder {
 public:
  // `report` must outlive this. `settle`: how long an erasure waits for commands in flight.
  // `lease`: lifetime of the lease without renewal.
  Recorder(const Settings& settings, const redis::Endpoint& endpoint, RecorderReport& report,
           readers::ReaderPseudonyms pseudonyms = {}, milliseconds settle = kSettleTime,
           milliseconds lease = kLeaseTtl);
  ~Recorder();

  // Runs until `stop` is set and returns within a second (plus the current commit). On a failure of
  // Redis, the disk or the index, or if another recorder is active, it waits with the reason in the
  // report and retries at least twice a second. Releases the lease and returns the exit status, 0.
  int run(const std::atomic<bool>& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace freshet::recorder
