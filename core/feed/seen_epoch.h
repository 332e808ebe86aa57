// How the seen-filter forgets a reader: by another name. It cannot give up single impressions, so a
// reader who was erased (core/recorder/erasure_worker.h) is known to it under their id and the number of
// erasures, and what stands there under the old name is found by nobody. That number is
// user:epoch:{hash}; without it a reader is known by the id alone. A day's filter outlives the
// number no longer than kSeenEpochTtl.
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

// One process' knowledge: of readers with a number, as it was read last. An entry too old costs a
// round trip.
class SeenEpochs {
 public:
  // `name`: of the reader in the key's name. Empty: nobody is ever forgotten, and nothing is read.
  using Pseudonym = std::function<std::string(const ReaderId&)>;
  SeenEpochs(redis::Keys keys, Pseudonym pseudonym) : keys_(std::move(keys)), pseudonym_(std::move(pseudonym)) {}

  // Appends the command that reads the number and renews its TTL; returns how many replies it
  // takes, 1 or 0.
  std::size_t append_read(redis::Pipeline& out, const ReaderId& reader) const;
  Result<void> update(const redis::Reply& reply, const ReaderId& reader);
  // By what the filter knows the reader: an id that is nobody else's, since ids contain no ':'.
  ReaderId filter_id(const ReaderId& reader) const;

 private:
  static constexpr std::size_t kMaxReaders = 10000;  // readers erased within nine days who are back

  const redis::Keys keys_;
  const Pseudonym pseudonym_;
  std::unordered_map<ReaderId, std::int64_t> epochs_;  // above 0
};

}  // namespace freshet::feed
