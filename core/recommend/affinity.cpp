#include "core/recommend/affinity.h"

#include <algorithm>
#include <cstring>

namespace freshet::recommend {
namespace {

using model::kLine;

constexpr model::Part kPartsInOrder[] = {model::Part::kCf, model::Part::kBorrowed, model::Part::kContent};

constexpr auto kInOrder = [](const model::Neighbour& a, const model::Neighbour& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.item < b.item;
};

// Finds the `most` greatest; lines are offered in order. What may be one of them waits in `pool`, a
// few times as many as wanted, before the least are thrown out: cheaper than a heap.
class Best {
 public:
  Best(std::vector<model::Neighbour>& pool, std::size_t most) : pool_(pool), most_(most) {
    pool_.resize(4 * most_ + kLine);
  }
  float least() const { return least_; }  // what is not greater is none of them
  void offer(std::uint32_t first, const float* a, const float* b) {
    model::Neighbour* const free = pool_.data() + size_;
    std::size_t taken = 0;
    for (std::uint32_t i = 0; i < kLine; ++i) {  // without branches: which are greater is random
      free[taken] = {first + i, a[i] + b[i]};
      taken += free[taken].weight > least_ ? 1U : 0U;
    }
    size_ += taken;
    if (size_ >= 4 * most_) throw_out();
  }
  // Those found, in order.
  std::span<const model::Neighbour> take() {
    if (size_ > most_) throw_out();
    std::sort(pool_.data(), pool_.data() + size_, kInOrder);
    return std::span(pool_).first(size_);
  }

 private:
  void throw_out() {
    model::Neighbour* const last = pool_.data() + (most_ - 1);
    std::nth_element(pool_.data(), last, pool_.data() + size_, kInOrder);
    least_ = last->weight;
    size_ = most_;
  }
  std::vector<model::Neighbour>& pool_;
  const std::size_t most_;
  std::size_t size_ = 0;
  float least_ = 0;
};

using Four = float __attribute__((vector_size(16)));  // of GCC and clang, for any processor

Four four(const float* at) {
  Four out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

// Whether a line has a sum greater than that.
bool any_greater(const float* a, const float* b, float than) {
  Four most{than, than, than, than};
  for (std::uint32_t i = 0; i < kLine; i += 4) {
    const Four sum = four(a + i) + four(b + i);
    most = sum > most ? sum : most;
  }
  return most[0] > than || most[1] > than || most[2] > than || most[3] > than;
}

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
  Best best(best_, most);
  for (std::size_t line = 0; line < lines_.size(); ++line) {
    const std::size_t first = line * kLine;
    if (lines_[line] != 0 && any_greater(&cf_[first], &content_[first], best.least()))
      best.offer(static_cast<std::uint32_t>(first), &cf_[first], &content_[first]);
  }
  for (std::size_t i = kept_.size(); i-- > 0;) {  // what stands twice was kept first
    cf_[kept_[i].item] = kept_[i].cf;
    content_[kept_[i].item] = kept_[i].content;
  }
  std::vector<std::uint32_t> items;
  for (const model::Neighbour& one : best.take()) items.push_back(one.item);
  return items;
}

}  // namespace freshet::recommend
