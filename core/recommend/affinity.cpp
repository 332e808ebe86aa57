#include "core/recommend/affinity.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/recommend/four.h"

namespace freshet::recommend {
namespace {

using model::kLine;

constexpr model::Part kPartsInOrder[] = {model::Part::kCf, model::Part::kBorrowed, model::Part::kContent};

constexpr auto kInOrder = [](const model::Neighbour& a, const model::Neighbour& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.item < b.item;
};

// The greatest sum of a line.
float greatest(const float* a, const float* b) {
  Four most = four(a) + four(b);
  for (std::uint32_t i = 4; i < kLine; i += 4) {
    most = greater_of(most, four(a + i) + four(b + i));
  }
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

// Numbers > 0 in steps of a sixteenth, counted by the step. Greater ones stand in later steps: the
// bits of floats > 0 are in their order.
class Steps {
 public:
  void count(float number) { ++counts_[step_of(number)]; }
  // A number that at least `most` of those counted reach, within a step of the greatest such; 0:
  // there are not so many.
  float reached_by(std::size_t most) const {
    std::size_t reached = 0;
    for (std::size_t step = counts_.size(); step-- > 0;) {
      reached += counts_[step];
      if (reached >= most) return std::bit_cast<float>(static_cast<std::uint32_t>(step) << kShift);
    }
    return 0;
  }

 private:
  static constexpr unsigned kShift = 19;
  static std::size_t step_of(float number) { return std::bit_cast<std::uint32_t>(number) >> kShift; }
  std::array<std::uint32_t, (1U << (31 - kShift))> counts_{};
};

}  // namespace

void Affinity::clear(std::size_t items) {
  const std::size_t lines = model::lines_of(items);
  if (lines_.size() != lines) {
    cf_.assign(lines * kLine, 0);
    content_.assign(lines * kLine, 0);
    lines_.assign(lines, 0);
    return;
  }
  for (std::size_t line = 0; line < lines; ++line) {
    if (lines_[line] == 0) continue;
    lines_[line] = 0;
    std::fill_n(cf_.data() + line * kLine, kLine, 0.F);
    std::fill_n(content_.data() + line * kLine, kLine, 0.F);
  }
}

void Affinity::compute(const model::Model& model, std::span<const ProfileItem> profile) {
  const std::size_t items = model.items();
  clear(items);
  const model::Mix mix = model.mix();
  for (const model::Part part : kPartsInOrder) {
    const float share = mix.part[static_cast<std::size_t>(part)];
    if (share == 0) continue;
    auto& sums = part == model::Part::kContent ? content_ : cf_;
    for (const ProfileItem& each : profile) model.fetch_place(part, each.item);
    for (std::size_t i = 0; i < profile.size(); ++i) {
      if (i + 1 < profile.size()) model.fetch(part, profile[i + 1].item);
      model.accumulate(part, profile[i].item, share * profile[i].weight, std::span(sums).first(items),
                       lines_);
    }
  }
}

std::vector<std::uint32_t> Affinity::top(std::size_t most, std::span<const std::uint32_t> without) {
  if (most == 0) return {};
  kept_.clear();
  for (const std::uint32_t item : without) {
    kept_.push_back({item, cf_[item], content_[item]});
    cf_[item] = content_[item] = 0;
  }
  find_lines();
  Steps steps;
  for (const Line& each : found_) steps.count(each.greatest);
  const float least = steps.reached_by(most);  // so many lines have at least one such sum each
  best_.clear();
  for (const Line& each : found_) {
    if (each.greatest < least) continue;
    const std::size_t size = best_.size();
    best_.resize(size + kLine);
    model::Neighbour* const free = best_.data() + size;
    std::size_t taken = 0;
    for (std::uint32_t i = 0; i < kLine; ++i) {  // without branches: which are greater is random
      free[taken] = {each.first + i, cf_[each.first + i] + content_[each.first + i]};
      taken += free[taken].weight > 0 && free[taken].weight >= least ? 1U : 0U;
    }
    best_.resize(size + taken);
  }
  for (std::size_t i = kept_.size(); i-- > 0;) {  // what stands twice was kept first
    cf_[kept_[i].item] = kept_[i].cf;
    content_[kept_[i].item] = kept_[i].content;
  }
  if (best_.size() > most) {
    const auto end = best_.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(best_.begin(), end - 1, best_.end(), kInOrder);
    best_.erase(end, best_.end());
  }
  std::sort(best_.begin(), best_.end(), kInOrder);
  std::vector<std::uint32_t> items;
  items.reserve(best_.size());
  for (const model::Neighbour& one : best_) items.push_back(one.item);
  return items;
}

// The lines with a sum > 0.
void Affinity::find_lines() {
  found_.clear();
  for (std::size_t line = 0; line < lines_.size(); ++line) {
    if (lines_[line] == 0) continue;
    const std::size_t first = line * kLine;
    const float most = greatest(&cf_[first], &content_[first]);
    if (most > 0) found_.push_back({static_cast<std::uint32_t>(first), most});
  }
}

}  // namespace freshet::recommend
