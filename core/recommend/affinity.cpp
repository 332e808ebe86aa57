#include "core/recommend/affinity.h"

#include <algorithm>
#include <utility>

namespace freshet::recommend {
namespace {

// An item of the profile reaches a few hundred others. While that is a good part of the model,
// clearing and adding whole arrays is cheapest; in a large model only what was reached is looked
// at, then and at the next clearing. Measured with `evaluate_public` (scoring time by model size).
constexpr std::size_t kReachOfAnEntry = 128;
constexpr std::size_t kAlwaysDense = 32768;

bool in_order(const model::Neighbour& a, const model::Neighbour& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.item < b.item;
}

// The `most` greatest so far, as a heap whose front is the least of them.
class Best {
 public:
  explicit Best(std::size_t most) : most_(most) { heap_.reserve(most); }
  void offer(std::uint32_t item, float weight) {
    if (!(weight > 0) || weight < least_) return;
    if (heap_.size() == most_) {
      if (!in_order({item, weight}, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), in_order);
      heap_.back() = {item, weight};
    } else {
      heap_.push_back({item, weight});
    }
    std::push_heap(heap_.begin(), heap_.end(), in_order);
    if (heap_.size() == most_) least_ = heap_.front().weight;
  }
  std::vector<std::uint32_t> take() {
    std::sort_heap(heap_.begin(), heap_.end(), in_order);
    std::vector<std::uint32_t> items;
    items.reserve(heap_.size());
    for (const model::Neighbour& one : heap_) items.push_back(one.item);
    return items;
  }

 private:
  std::size_t most_;
  float least_ = 0;
  std::vector<model::Neighbour> heap_;
};

}  // namespace

void Affinity::clear(std::size_t items) {
  if (total_.size() != items) {
    total_.assign(items, 0);
    for (auto& part : parts_) part.assign(items, 0);
  } else if (dense_) {
    std::fill(total_.begin(), total_.end(), 0.F);
    for (auto& part : parts_) std::fill(part.begin(), part.end(), 0.F);
  } else {
    for (const std::uint32_t item : touched_) {
      total_[item] = 0;
      for (auto& part : parts_) part[item] = 0;
    }
  }
  touched_.clear();
}

void Affinity::compute(const model::Model& model, std::span<const ProfileItem> profile) {
  const std::size_t items = model.items();
  clear(items);
  dense_ = items <= kAlwaysDense || items <= profile.size() * kReachOfAnEntry;
  const model::Mix mix = model.mix();
  for (std::size_t p = 0; p < model::kParts; ++p) {
    if (mix.part[p] == 0) continue;
    const model::Part part = static_cast<model::Part>(p);
    for (const ProfileItem& entry : profile) {
      if (dense_) {
        model.accumulate(part, entry.item, entry.weight, parts_[p]);
      } else {
        model.accumulate(part, entry.item, entry.weight, parts_[p], total_, touched_);
      }
    }
  }
  const auto sum = [&](std::size_t item) {
    float total = 0;
    for (std::size_t p = 0; p < model::kParts; ++p) total += mix.part[p] * parts_[p][item];
    return total;
  };
  if (dense_) {
    for (std::size_t item = 0; item < items; ++item) total_[item] = sum(item);
  } else {
    for (const std::uint32_t item : touched_) total_[item] = sum(item);
  }
}

template <class Each>
void Affinity::reached(const Each& each) const {
  if (dense_) {
    for (std::size_t item = 0; item < total_.size(); ++item) each(static_cast<std::uint32_t>(item));
  } else {
    for (const std::uint32_t item : touched_) each(item);
  }
}

std::vector<std::uint32_t> Affinity::top(std::size_t most) const {
  if (most == 0) return {};
  Best best(std::min(most, total_.size()));
  reached([&](std::uint32_t item) { best.offer(item, total_[item]); });
  return best.take();
}

std::vector<std::uint32_t> Affinity::top(std::size_t most, std::span<const std::uint32_t> without) {
  std::vector<float> kept;
  kept.reserve(without.size());
  for (const std::uint32_t item : without) kept.push_back(std::exchange(total_[item], 0.F));
  auto items = top(most);
  for (std::size_t i = without.size(); i-- > 0;) total_[without[i]] = kept[i];
  return items;
}

}  // namespace freshet::recommend
