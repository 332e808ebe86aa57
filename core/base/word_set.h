// Lock-free hash tables of 8-byte words in memory shared by a host's processes. The words of a key
// are in one set of eight, which is one cache line. An update is one compare-and-swap of one word,
// so a process that dies leaves nothing half done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace freshet {

using SharedWord = std::atomic<std::uint64_t>;
static_assert(SharedWord::is_always_lock_free && sizeof(SharedWord) == sizeof(std::uint64_t));
using WordSet = std::span<SharedWord, 8>;
inline constexpr std::size_t kWordSetBytes = sizeof(SharedWord) * WordSet::extent;

// The set of `key` among `count` sets that begin at `sets`. Uses the key's high 32 bits; tags must
// use others.
inline WordSet word_set_for(void* sets, std::size_t count, std::uint64_t key) {
  const std::size_t set = ((key >> 32U) * count) >> 32U;
  return WordSet(static_cast<SharedWord*>(sets) + set * WordSet::extent, WordSet::extent);
}

// Replaces the key's word by new_word(word). If the set has none, the word with the lowest
// eviction_key(word) is replaced; new_word() must not take its value for the key's.
template <class HasKey, class EvictionKey, class NewWord>
void update_word(WordSet set, const HasKey& has_key, const EvictionKey& eviction_key,
                 const NewWord& new_word) {
  for (;;) {
    SharedWord* slot = set.data();
    std::uint64_t expected = slot->load(std::memory_order_relaxed);
    for (SharedWord& each : set) {
      const std::uint64_t word = each.load(std::memory_order_relaxed);
      const bool matches_key = has_key(word);
      if (!matches_key && eviction_key(word) >= eviction_key(expected)) continue;
      slot = &each;
      expected = word;
      if (matches_key) break;
    }
    const std::uint64_t updated = new_word(expected);
    if (updated == expected || slot->compare_exchange_weak(expected, updated, std::memory_order_relaxed))
      return;
  }
}

}  // namespace freshet
