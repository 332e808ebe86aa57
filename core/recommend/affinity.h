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
class Affinity {
 public:
  // Computes affinities of every item of `model` for the profile. Indexes below model.items(),
  // distinct or not. O(profile × neighbours), + items while the model is small.
  void compute(const model::Model& model, std::span<const ProfileItem> profile);

  // After compute(): by model index.
  std::span<const float> total() const { return total_; }
  float part(model::Part part, std::uint32_t item) const {
    return parts_[static_cast<std::size_t>(part)][item];
  }
  // The indexes of the `most` greatest totals > 0, greatest first, ties by index.
  std::vector<std::uint32_t> top(std::size_t most) const;
  // The same leaving out some, in any order.
  std::vector<std::uint32_t> top(std::size_t most, std::span<const std::uint32_t> without);

 private:
  void clear(std::size_t items);
  template <class Each>
  void reached(const Each& each) const;

  std::vector<float> total_;
  std::vector<float> parts_[model::kParts];
  std::vector<std::uint32_t> touched_;  // when not dense_: what may not be 0
  bool dense_ = true;
};

}  // namespace freshet::recommend
