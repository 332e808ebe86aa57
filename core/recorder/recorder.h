// What keeps items and what readers did durable: reads the streams that every write of these leaves
// an entry in (core/items/item_store.h, reader_entries.h), and writes SQLite and the search index.
// The only writer of both, by a lease (lease.h). It also forgets readers (eraser.h), and pushes
// what authors publish (fanout.h).
//
// SQLite commits each batch, then the index those of a quarter of a second together (kIndexPause),
// then their entries are acknowledged and each stream is cut behind the last one acknowledged.
// Killed anywhere in between, the entries are still pending for the group and are done again, in
// their order, before new ones; doing them twice changes nothing.
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

// From a commit of the index to the first change of the next. Xapian's readers survive one commit:
// what it replaced is overwritten by the one after it. So a search that began with the newest
// commit may take this long and never fails for a writer (core/feed/recall_source.h).
inline constexpr milliseconds kIndexPause{250};

// Blocking; makes its own connections and opens its own files, in run(): make and run it after the
// fork.
class Recorder {
 public:
  // `report` must outlive this. `settle`: how long an erasure waits for what is under way. `lease`:
  // for how long we record when nothing is heard of us.
  Recorder(const Settings& settings, const redis::Endpoint& endpoint, RecorderReport& report,
           readers::ReaderPseudonyms hashes = {}, milliseconds settle = kSettleTime, milliseconds lease = kLeaseTtl);
  ~Recorder();

  // Until `stop` is true, within a second of it (plus the commit in hand). Whatever fails — Redis,
  // the disk, the index, another recorder — is waited for, with the reason in the report, and tried
  // again, twice a second at least. Returns the exit status, 0; the lease was given back then.
  int run(const std::atomic<bool>& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace freshet::recorder
