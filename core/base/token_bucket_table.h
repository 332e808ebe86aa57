// A fixed-size hash table of token buckets in memory shared by a host's workers. A bucket takes 8
// bytes and uses the generic cell rate algorithm (ITU-T I.371, annex A): it stores when the bucket
// will be full, and a tag of its key. An absent bucket counts as full, so evicting a full one loses
// nothing.
//
// A new key in a full set (core/base/word_set.h) evicts the fullest bucket. While a bucket stays in
// the table it never grants more than its rate and burst, however many processes take from it at
// once.
//
//   64 bytes  header: magic, version, size, seed
//   then sets of 8 words; each word:
//     44 bits  when the bucket is full, in µs (wraps around after 203 days)
//     20 bits  tag; a word of 0 is unused
//
// One take() costs 25–45 ns with the bucket in cache, plus cache and TLB misses: below 1 µs among a
// million buckets on a loaded virtual machine (test_base "[.bench]").
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/descriptor.h"
#include "core/base/result.h"
#include "core/base/word_set.h"

namespace freshet {

// interval_us: time per token. capacity_us: time to fill an empty bucket, burst × interval.
struct TokenRate {
  std::int64_t interval_us = 0;
  std::int64_t capacity_us = 0;
};
// REQUIRES: per_second > 0, burst ≥ 1. Rounds so that the rate is never exceeded; a bucket takes at
// most 76 hours to fill.
TokenRate token_rate(double per_second, double burst);

struct TakeResult {
  bool granted = false;
  std::int64_t retry_after_us = 0;   // if not granted: time until it would be
  std::int64_t time_to_full_us = 0;  // time until the bucket is full
};

class TokenBucketTable {
 public:
  static constexpr std::size_t kMinBytes = 4096;

  // Creates an empty table in a memfd. Throws std::system_error.
  explicit TokenBucketTable(std::size_t bytes);
  // Maps a table that another process created and passed on. Error: kConflict "other_table" if it
  // is not a table, or has another version or size.
  static Result<TokenBucketTable> adopt(Descriptor file, std::size_t bytes);
  TokenBucketTable(TokenBucketTable&& other) noexcept;
  TokenBucketTable& operator=(TokenBucketTable&&) = delete;
  ~TokenBucketTable();

  // To pass to another process. Close-on-exec.
  int fd() const { return file_.get(); }
  // Random, and the same for all processes that share the table. Hash keys with it, so that clients
  // cannot choose keys that collide in one set.
  std::uint64_t seed() const;

  // Takes `cost_us` worth of tokens if they are available; a cost above the capacity counts as the
  // capacity. `key` is a hash that uses all bits; `now_us` is CLOCK_MONOTONIC.
  TakeResult take(std::uint64_t key, const TokenRate& rate, std::int64_t now_us, std::int64_t cost_us);
  TakeResult take(std::uint64_t key, const TokenRate& rate, std::int64_t now_us) {
    return take(key, rate, now_us, rate.interval_us);
  }
  // Takes the cost even if it is not available; the debt is at most one capacity. Returns the time
  // until the bucket is full.
  std::int64_t charge(std::uint64_t key, const TokenRate& rate, std::int64_t now_us, std::int64_t cost_us);
  // Time until the bucket is full, without taking anything.
  std::int64_t time_to_full_us(std::uint64_t key, std::int64_t now_us) const;

 private:
  struct Header;

  TokenBucketTable(Descriptor file, std::size_t bytes);
  Header& header() const;
  WordSet set_for(std::uint64_t key) const;
  // Calls new_time_to_full(current) until its result is stored. `max_us` caps the current value,
  // which other settings may have left higher.
  template <class NewTimeToFull>
  void update(std::uint64_t key, std::int64_t now_us, std::int64_t max_us,
              const NewTimeToFull& new_time_to_full);

  Descriptor file_;
  std::size_t bytes_;
  void* memory_;
  std::size_t sets_;
};

}  // namespace freshet
