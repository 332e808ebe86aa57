// Scores every item of the model by its relation to a reader's profile:
// affinity = Σ over relations of blend weight · Σ over the profile of event weight · neighbour
// weight.
// Serving, training and evaluation share this code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/model.h"

namespace freshet::recommend {

struct ProfileItem {
  std::uint32_t item = 0;  // index in the model
  float weight = 1;        // interaction weight × recency, > 0
};

// Reuses its scratch memory between calls. Not thread-safe.
class AffinityScorer {
 public:
  // Computes the affinity of every item of `model`. Indexes in `profile` must be below
  // model.items(); duplicates add up. O(profile × neighbours + items / 16).
  void compute(const model::Model& model, std::span<const ProfileItem> profile);

  // Valid after compute(). Items are model indexes.
  float total(std::uint32_t item) const { return cf_[item] + content_[item]; }
  // Collaborative filtering, including cold-start rows.
  float cf(std::uint32_t item) const { return cf_[item]; }
  float content(std::uint32_t item) const { return content_[item]; }
  // Returns the `limit` items with the highest totals > 0, highest first, ties by index. Skips the
  // items of `excluded`.
  std::vector<std::uint32_t> top(std::size_t limit, std::span<const std::uint32_t> excluded = {});

 private:
  struct SavedScores {
    std::uint32_t item = 0;
    float cf = 0, content = 0;
  };
  struct Block {
    std::uint32_t first = 0;  // index of the block's first item
    float max_total = 0;      // highest total in the block
  };
  void clear(std::size_t items);
  void find_blocks();

  std::vector<float> cf_, content_;           // weighted sums per item, padded to whole blocks
  std::vector<std::uint8_t> touched_blocks_;  // 1: the block may contain a non-zero score
  std::vector<Block> scored_blocks_;
  std::vector<model::Neighbour> best_;
  std::vector<SavedScores> saved_;
};

}  // namespace freshet::recommend
