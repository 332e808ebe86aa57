// How much a reader's profile speaks for each item of the model: affinity = Σ over parts of
// mix[part] · Σ over the profile of weight · neighbour weight. The same code serves, trains and
// evaluates.
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

// Scratch memory, reused from call to call; one thread.
class AffinityScorer {
 public:
  // Computes affinities of every item of `model` for the profile. Indexes below model.items(),
  // distinct or not. O(profile × neighbours + items / 16).
  void compute(const model::Model& model, std::span<const ProfileItem> profile);

  // After compute(): by model index.
  float total(std::uint32_t item) const { return cf_[item] + content_[item]; }
  float cf(std::uint32_t item) const { return cf_[item]; }  // of co-interaction, borrowed rows too
  float content(std::uint32_t item) const { return content_[item]; }
  // The indexes of the `most` greatest totals > 0, greatest first, ties by index; of `without`
  // none.
  std::vector<std::uint32_t> top(std::size_t limit, std::span<const std::uint32_t> excluded = {});

 private:
  struct SavedScores {
    std::uint32_t item = 0;
    float cf = 0, content = 0;
  };
  struct Block {
    std::uint32_t first = 0;  // its first item
    float max_total = 0;       // of its totals
  };
  void clear(std::size_t items);
  void find_blocks();

  std::vector<float> cf_, content_;  // what the parts add to the total; whole lines
  std::vector<std::uint8_t> touched_blocks_;  // 1: something in the line may not be 0
  std::vector<Block> scored_blocks_;
  std::vector<model::Neighbour> best_;
  std::vector<SavedScores> saved_;
};

}  // namespace freshet::recommend
