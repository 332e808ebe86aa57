#include "core/recommend/affinity_scorer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/recommend/float4.h"

namespace freshet::recommend {
namespace {

using model::kBlockItems;

constexpr model::Relation kRelationOrder[] = {model::Relation::kCf, model::Relation::kColdStart,
                                              model::Relation::kContent};

constexpr auto kRanksBefore = [](const model::Neighbour& a, const model::Neighbour& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.item < b.item;
};

// Highest sum a[i] + b[i] in a block.
float max_sum(const float* a, const float* b) {
  Float4 lane_max = load4(a) + load4(b);
  for (std::uint32_t i = 4; i < kBlockItems; i += 4) {
    lane_max = max4(lane_max, load4(a + i) + load4(b + i));
  }
  return std::max(std::max(lane_max[0], lane_max[1]), std::max(lane_max[2], lane_max[3]));
}

// Histogram of floats > 0 with buckets of one sixteenth of a power of two. The bits of positive
// floats sort like the floats, so the bucket is the top bits.
class FloatHistogram {
 public:
  void add(float number) { ++counts_[bucket_of(number)]; }
  // Returns a lower bound, accurate to one bucket, of the `count`-th highest number. 0 if fewer
  // were added.
  float threshold_for_top(std::size_t count) const {
    std::size_t reached = 0;
    for (std::size_t bucket = counts_.size(); bucket-- > 0;) {
      reached += counts_[bucket];
      if (reached >= count) return std::bit_cast<float>(static_cast<std::uint32_t>(bucket) << kShift);
    }
    return 0;
  }

 private:
  static constexpr unsigned kShift = 19;
  static std::size_t bucket_of(float number) { return std::bit_cast<std::uint32_t>(number) >> kShift; }
  std::array<std::uint32_t, (1U << (31 - kShift))> counts_{};
};

}  // namespace

void AffinityScorer::clear(std::size_t items) {
  const std::size_t blocks = model::block_count(items);
  if (touched_blocks_.size() != blocks) {
    cf_.assign(blocks * kBlockItems, 0);
    content_.assign(blocks * kBlockItems, 0);
    touched_blocks_.assign(blocks, 0);
    return;
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    if (touched_blocks_[block] == 0) continue;
    touched_blocks_[block] = 0;
    std::fill_n(cf_.data() + block * kBlockItems, kBlockItems, 0.F);
    std::fill_n(content_.data() + block * kBlockItems, kBlockItems, 0.F);
  }
}

void AffinityScorer::compute(const model::Model& model, std::span<const ProfileItem> profile) {
  const std::size_t items = model.items();
  clear(items);
  const model::BlendWeights blend = model.blend_weights();
  for (const model::Relation relation : kRelationOrder) {
    const float blend_weight = blend.by_relation[static_cast<std::size_t>(relation)];
    if (blend_weight == 0) continue;
    auto& sums = relation == model::Relation::kContent ? content_ : cf_;
    for (const ProfileItem& each : profile) model.prefetch_row_bounds(relation, each.item);
    for (std::size_t i = 0; i < profile.size(); ++i) {
      if (i + 1 < profile.size()) model.prefetch(relation, profile[i + 1].item);
      model.accumulate(relation, profile[i].item, blend_weight * profile[i].weight,
                       std::span(sums).first(items), touched_blocks_);
    }
  }
}

std::vector<std::uint32_t> AffinityScorer::top(std::size_t limit, std::span<const std::uint32_t> excluded) {
  if (limit == 0) return {};
  saved_.clear();
  for (const std::uint32_t item : excluded) {
    saved_.push_back({item, cf_[item], content_[item]});
    cf_[item] = content_[item] = 0;
  }
  find_blocks();
  FloatHistogram histogram;
  for (const Block& each : scored_blocks_) histogram.add(each.max_total);
  // At least `limit` blocks reach the threshold, so at least `limit` items do.
  const float threshold = histogram.threshold_for_top(limit);
  best_.clear();
  for (const Block& each : scored_blocks_) {
    if (each.max_total < threshold) continue;
    const std::size_t size = best_.size();
    best_.resize(size + kBlockItems);
    model::Neighbour* const slots = best_.data() + size;
    std::size_t appended = 0;
    for (std::uint32_t i = 0; i < kBlockItems; ++i) {  // branch-free: the comparison is unpredictable
      slots[appended] = {each.first + i, cf_[each.first + i] + content_[each.first + i]};
      appended += slots[appended].weight > 0 && slots[appended].weight >= threshold ? 1U : 0U;
    }
    best_.resize(size + appended);
  }
  // In reverse order, because of duplicates the first saved entry holds the score.
  for (std::size_t i = saved_.size(); i-- > 0;) {
    cf_[saved_[i].item] = saved_[i].cf;
    content_[saved_[i].item] = saved_[i].content;
  }
  if (best_.size() > limit) {
    const auto end = best_.begin() + static_cast<std::ptrdiff_t>(limit);
    std::nth_element(best_.begin(), end - 1, best_.end(), kRanksBefore);
    best_.erase(end, best_.end());
  }
  std::sort(best_.begin(), best_.end(), kRanksBefore);
  std::vector<std::uint32_t> items;
  items.reserve(best_.size());
  for (const model::Neighbour& one : best_) items.push_back(one.item);
  return items;
}

// Collects the blocks with a positive score.
void AffinityScorer::find_blocks() {
  scored_blocks_.clear();
  for (std::size_t block = 0; block < touched_blocks_.size(); ++block) {
    if (touched_blocks_[block] == 0) continue;
    const std::size_t first = block * kBlockItems;
    const float max_total = max_sum(&cf_[first], &content_[first]);
    if (max_total > 0) scored_blocks_.push_back({static_cast<std::uint32_t>(first), max_total});
  }
}

}  // namespace freshet::recommend
