// Makes the seen filter forget a reader by renaming them. Single impressions cannot be removed from
// the filter, so an erased reader (core/recorder/erasure_worker.h) is known to it by their id plus
// the number of erasures, their epoch; impressions under the old name are never looked up again.
// The epoch is stored in user:epoch:{hash}; without one a reader is known by their id alone.
// kSeenEpochTtl is longer than a day's filter lives.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/redis/command.h"
#include "core/redis/keys.h"
#include "core/redis/reply.h"

namespace freshet::feed {

// Cache of one process: readers with an epoch, as last read. A stale entry costs one round trip.
class SeenEpochs {
 public:
  // Returns the pseudonym that the reader's key is named by. Empty: epochs are neither read nor
  // used.
  using Pseudonym = std::function<std::string(const ReaderId&)>;
  SeenEpochs(redis::Keys keys, Pseudonym pseudonym)
      : keys_(std::move(keys)), pseudonym_(std::move(pseudonym)) {}

  // Appends the command that reads the epoch and renews its TTL. Returns the number of replies: 1,
  // or 0 without a pseudonym.
  std::size_t append_read(redis::Pipeline& out, const ReaderId& reader) const;
  Result<void> update(const redis::Reply& reply, const ReaderId& reader);
  // The id under which the filter knows the reader. Unique, since ids contain no kIdMark.
  ReaderId filter_id(const ReaderId& reader) const;

 private:
  static constexpr std::size_t kMaxReaders = 10000;  // readers who were erased within nine days and came back

  const redis::Keys keys_;
  const Pseudonym pseudonym_;
  std::unordered_map<ReaderId, std::int64_t> epochs_;  // readers with an epoch above 0
};

}  // namespace freshet::feed
