#include "core/training/in_memory_model.h"

#include <algorithm>
#include <utility>

namespace freshet::training {
namespace {

class InMemoryModel final : public model::Model {
 public:
  explicit InMemoryModel(TrainedModel trained) : trained_(std::move(trained)) {}

  std::uint32_t items() const override { return static_cast<std::uint32_t>(trained_.items.size()); }
  std::optional<std::uint32_t> find(std::string_view id) const override {
    const auto at = std::lower_bound(
        trained_.items.begin(), trained_.items.end(), id,
        [](const TrainingItem& item, std::string_view item_id) { return item.id < item_id; });
    if (at == trained_.items.end() || at->id != id) return std::nullopt;
    return static_cast<std::uint32_t>(at - trained_.items.begin());
  }
  std::string_view id(std::uint32_t item) const override { return trained_.items[item].id; }
  std::string_view title(std::uint32_t item) const override { return trained_.items[item].title; }
  std::string_view author(std::uint32_t item) const override { return trained_.items[item].author; }
  void tags(std::uint32_t item, std::vector<std::string_view>& out) const override {
    out.assign(trained_.items[item].tags.begin(), trained_.items[item].tags.end());
  }
  UnixSeconds published(std::uint32_t item) const override { return trained_.items[item].published; }
  float count(std::uint32_t item) const override { return trained_.counts[item]; }
  float decayed_count(std::uint32_t item) const override { return trained_.decayed_counts[item]; }
  std::span<const model::TermWeight> terms(std::uint32_t item) const override {
    return trained_.terms.empty() ? std::span<const model::TermWeight>{} : trained_.terms[item];
  }

  void accumulate(model::Relation relation, std::uint32_t item, float scale, std::span<float> scores,
                  std::span<std::uint8_t> touched_blocks) const override {
    for (const model::Neighbour& each : neighbours(relation, item)) {
      scores[each.item] += scale * each.weight;
      touched_blocks[each.item / model::kBlockItems] = 1;
    }
  }
  std::vector<model::Neighbour> row(model::Relation relation, std::uint32_t item) const override {
    const auto all = neighbours(relation, item);
    return {all.begin(), all.end()};
  }
  model::BlendWeights blend_weights() const override { return trained_.blend_weights; }
  std::optional<model::TermWeight> idf(std::uint64_t term_hash) const override {
    const auto& words = trained_.vocabulary;
    const auto at = std::lower_bound(words.begin(), words.end(), term_hash);
    if (at == words.end() || *at != term_hash) return std::nullopt;
    const auto term = static_cast<std::uint32_t>(at - words.begin());
    return model::TermWeight{term, trained_.idf[term]};
  }
  std::span<const float> reranker() const override { return trained_.reranker; }
  model::ChosenRanking ranking() const override { return trained_.ranking; }
  UnixSeconds trained_at() const override { return trained_.trained_at; }
  std::string_view algorithm() const override { return trained_.algorithm; }
  std::uint64_t bytes() const override { return 0; }

 private:
  std::span<const model::Neighbour> neighbours(model::Relation relation, std::uint32_t item) const {
    const TrainedModel::Rows& rows = trained_.relations[static_cast<std::size_t>(relation)];
    if (rows.starts.empty()) return {};
    return std::span(rows.neighbours).subspan(rows.starts[item], rows.starts[item + 1] - rows.starts[item]);
  }

  const TrainedModel trained_;
};

}  // namespace

std::shared_ptr<const model::Model> to_model(TrainedModel trained) {
  return std::make_shared<const InMemoryModel>(std::move(trained));
}

}  // namespace freshet::training
