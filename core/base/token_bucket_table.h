// Token buckets in memory that processes share: a fixed number of them, of a host's workers. A
// bucket is 8 bytes, by the generic cell rate algorithm (ITU-T I.371, annex A): the moment at which
// it will be full, and a tag of whose it is. A bucket that nobody has is full, so nothing is lost
// when a full one goes.
//
// Eight buckets are a set, and a cache line. A key whose set is taken gets the place of the fullest
// one there. Lock-free: a change is one compare-and-swap of one word, and whoever dies leaves
// nothing half done. A bucket that is in the table never gives more than its rate and burst,
// whoever takes from it at once.
//
//   64 bytes   magic, version, size, seed; then sets of 8 words:
//   word       44 bits of the moment in µs (they come round in 203 days), 20 bits of tag; 0:
//   nobody's
//
// One take() is 25–45 ns while the caches have the bucket, and what a miss of cache and TLB costs
// beyond: below 1 µs among a million buckets, on a loaded virtual machine (test_base "[.bench]").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/descriptor.h"
#include "core/base/result.h"

namespace freshet {

// A token each `interval_us`, and the time that it takes to fill the bucket from empty: burst ·
// interval.
struct TokenRate {
  std::int64_t interval_us = 0;
  std::int64_t capacity_us = 0;
};
// `per_second` > 0 and `burst` ≥ 1. Rounded so that no more is given; a bucket fills in 76 hours at
// most.
TokenRate token_rate(double per_second, double burst);

struct TakeResult {
  bool granted = false;
  std::int64_t retry_after_us = 0;  // not granted: until it would be
  std::int64_t time_to_full_us = 0;  // until the bucket is full
};

class TokenBucketTable {
 public:
  static constexpr std::size_t kMinBytes = 4096;

  // Empty, in a file of its own in memory. Throws std::system_error.
  explicit TokenBucketTable(std::size_t bytes);
  // What another process made and handed over. Error: kConflict "limit_table_mismatch" when it is none, or
  // of another version or size.
  static Result<TokenBucketTable> adopt(Descriptor file, std::size_t bytes);
  TokenBucketTable(TokenBucketTable&& other) noexcept;
  TokenBucketTable& operator=(TokenBucketTable&&) = delete;
  ~TokenBucketTable();

  // To hand it on. Closed at the execution of another program.
  int fd() const { return file_.get(); }
  // Random; the same for all who share the table. Keys are hashed with it, so that nobody can aim
  // at a set.
  std::uint64_t seed() const;

  // `key`: a hash, all of whose bits count. `now_us`: CLOCK_MONOTONIC. Takes `cost_us` worth of
  // tokens if they are there; no cost is more than the whole bucket.
  TakeResult take(std::uint64_t key, const TokenRate& rate, std::int64_t now_us, std::int64_t cost_us);
  TakeResult take(std::uint64_t key, const TokenRate& rate, std::int64_t now_us) {
    return take(key, rate, now_us, rate.interval_us);
  }
  // Takes it whether it is there or not: the bucket owes at most what it holds when it is full. Its
  // fill_us.
  std::int64_t charge(std::uint64_t key, const TokenRate& rate, std::int64_t now_us, std::int64_t cost_us);
  // Until the bucket is full. Takes nothing.
  std::int64_t time_to_full_us(std::uint64_t key, std::int64_t now_us) const;

 private:
  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint64_t));
  struct Header;

  TokenBucketTable(Descriptor file, std::size_t bytes);
  Header& header() const;
  std::span<Word, 8> set_for(std::uint64_t key) const;
  // next(fill): the bucket's fill_us from now on. `most_us`: no fill is more, as one could be that
  // other settings left.
  template <class Next>
  void update(std::uint64_t key, std::int64_t now_us, std::int64_t max_us, const Next& new_time_to_full);

  Descriptor file_;
  std::size_t bytes_;
  void* memory_;
  std::size_t sets_;
};

}  // namespace freshet
