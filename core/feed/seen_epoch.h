// The names under which the seen filter knows a reader. Single impressions can be neither removed
// from the filter nor listed, so:
// - an erased reader (core/recorder/erasure_worker.h) is known by their id plus the number of
//   erasures, their epoch; impressions under the old name are never looked up again. The epoch is
//   stored in user:epoch:{hash}, which lives longer than a day's filter (kSeenEpochTtl). Without
//   one a reader is known by their id alone.
// - a reader into whom others were merged (core/recorder/merge_worker.h) is also known by their
//   names, from user:visitors:{reader}.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/redis/command.h"
#include "core/redis/keys.h"
#include "core/redis/reply.h"

namespace freshet::feed {

// Cache of one process: readers with an epoch or merged names, as last read. A stale entry costs
// one round trip.
class SeenEpochs {
 public:
  // Returns the pseudonym that the reader's key is named by. Empty: neither epochs nor merged names
  // are read or used.
  using Pseudonym = std::function<std::string(const ReaderId&)>;
  SeenEpochs(redis::Keys keys, Pseudonym pseudonym)
      : keys_(std::move(keys)), pseudonym_(std::move(pseudonym)) {}

  // A reader's own name in the filter. Unique, since ids contain no kIdMark.
  static ReaderId name(const ReaderId& reader, std::int64_t epoch) {
    return epoch == 0 ? reader : ReaderId::trusted(reader.str() + kIdMark + std::to_string(epoch));
  }

  // Appends the commands that read the epoch, renewing its TTL, and the merged names. Returns the
  // number of replies: 2, or 0 without a pseudonym.
  std::size_t append_read(redis::Pipeline& out, const ReaderId& reader) const;
  // `replies`: at least those of append_read().
  Result<void> update(const redis::Reply* replies, const ReaderId& reader);
  // The reader's own name: new impressions are recorded under it.
  ReaderId filter_id(const ReaderId& reader) const;
  // All names to look under, the reader's own first.
  std::vector<ReaderId> filter_ids(const ReaderId& reader) const;

 private:
  static constexpr std::size_t kMaxReaders = 10000;
  struct Names {
    std::int64_t epoch = 0;
    std::vector<ReaderId> merged;
  };

  const redis::Keys keys_;
  const Pseudonym pseudonym_;
  std::unordered_map<ReaderId, Names> readers_;  // with an epoch above 0, or merged names
};

}  // namespace freshet::feed
