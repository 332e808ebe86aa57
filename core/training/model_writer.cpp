#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <unordered_map>

#include "core/model/model_layout.h"
#include "core/model/replace_model.h"
#include "core/training/train.h"

namespace freshet::training {
namespace {

using model::layout::RowSection;
using model::layout::Section;

// The file's bytes, built section by section.
class Image {
 public:
  Image() : bytes_(sizeof(model::layout::Header)) {}

  template <class T>
  void add(std::size_t section, std::span<const T> values) {
    bytes_.resize((bytes_.size() + model::layout::kAlignment - 1) / model::layout::kAlignment *
                  model::layout::kAlignment);
    header.sections[section] = {bytes_.size(), values.size_bytes()};
    const auto* const from = reinterpret_cast<const char*>(values.data());
    bytes_.insert(bytes_.end(), from, from + values.size_bytes());
  }
  template <class T>
  void add(Section section, const std::vector<T>& values) {
    add(index_of(section), std::span<const T>(values));
  }
  std::span<const char> finish() {
    header.file_bytes = bytes_.size();
    std::memcpy(bytes_.data(), &header, sizeof(header));
    header.checksum = XXH3_64bits(bytes_.data() + model::layout::kChecksumStart,
                                  bytes_.size() - model::layout::kChecksumStart);
    std::memcpy(bytes_.data(), &header, sizeof(header));
    return bytes_;
  }

  model::layout::Header header;

 private:
  std::vector<char> bytes_;
};

// Concatenated strings.
class TextPool {
 public:
  model::layout::TextRef add(std::string_view text) {
    const model::layout::TextRef ref{static_cast<std::uint32_t>(bytes_.size()),
                                     static_cast<std::uint32_t>(text.size())};
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return ref;
  }
  // Like add(), but stores equal strings only once, so that fewer pages are read. `text` must
  // outlive this.
  model::layout::TextRef add_shared(std::string_view text) {
    const auto [at, added] = shared_.try_emplace(text);
    if (added) at->second = add(text);
    return at->second;
  }
  // Offsets have 32 bits.
  bool fits() const { return bytes_.size() <= std::numeric_limits<std::uint32_t>::max(); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
  std::unordered_map<std::string_view, model::layout::TextRef> shared_;
};

void add_slots(const TrainedModel& trained, Image& image) {
  std::vector<std::uint32_t> slots(model::layout::slot_count(trained.items.size()), model::layout::kNoItem);
  for (std::uint32_t item = 0; item < trained.items.size(); ++item) {
    std::size_t slot = model::layout::home_slot(trained.items[item].id, slots.size());
    while (slots[slot] != model::layout::kNoItem) slot = (slot + 1) & (slots.size() - 1);
    slots[slot] = item;
  }
  image.add(Section::kSlots, slots);
}

Result<void> add_items(const TrainedModel& trained, Image& image) {
  TextPool texts;
  std::vector<model::layout::Item> items;
  std::vector<model::layout::TextRef> tags;
  for (std::size_t i = 0; i < trained.items.size(); ++i) {
    const TrainingItem& from = trained.items[i];
    model::layout::Item item;
    item.id = texts.add(from.id);
    item.title = texts.add(from.title);
    item.author = texts.add_shared(from.author);
    item.first_tag = static_cast<std::uint32_t>(tags.size());
    item.tags = static_cast<std::uint32_t>(from.tags.size());
    for (const std::string& tag : from.tags) tags.push_back(texts.add_shared(tag));
    item.published = std::clamp<std::int64_t>(from.published.time_since_epoch().count(), 0, kMaxUnixSeconds);
    item.count = trained.counts[i];
    item.decayed_count = trained.decayed_counts[i];
    items.push_back(item);
  }
  if (!texts.fits()) {
    return fail(ErrorCode::kInvalid, "model_too_large", {}, "ids, titles, authors and tags exceed 4 GiB");
  }
  image.add(Section::kItems, items);
  add_slots(trained, image);
  image.add(Section::kTags, tags);
  image.add(Section::kText, texts.bytes());
  return {};
}

void add_terms(const TrainedModel& trained, Image& image) {
  std::vector<std::uint64_t> starts{0};
  std::vector<model::TermWeight> terms;
  for (const auto& vector : trained.terms) {
    terms.insert(terms.end(), vector.begin(), vector.end());
    starts.push_back(terms.size());
  }
  image.add(Section::kTermStarts, starts);
  image.add(Section::kTerms, terms);
  image.add(Section::kVocabulary, trained.vocabulary);
  image.add(Section::kIdf, trained.idf);
}

template <class Column>
void add_columns(const TrainedModel::Rows& rows, std::size_t section, Image& image) {
  std::vector<Column> columns;
  columns.reserve(rows.neighbours.size());
  for (const model::Neighbour& neighbour : rows.neighbours)
    columns.push_back(static_cast<Column>(neighbour.item));
  image.add(section, std::span<const Column>(columns));
}

void add_rows(const TrainedModel::Rows& rows, std::size_t items, model::Relation relation, Image& image) {
  std::vector<float> scales(items, 0);
  std::vector<std::int16_t> weights(rows.neighbours.size());
  for (std::size_t row = 0; row < items; ++row) {
    float max_weight = 0;
    for (std::uint64_t at = rows.starts[row]; at < rows.starts[row + 1]; ++at) {
      max_weight = std::max(max_weight, std::abs(rows.neighbours[at].weight));
    }
    scales[row] = max_weight / model::layout::kWeightSteps;
    if (!(scales[row] > 0)) continue;
    for (std::uint64_t at = rows.starts[row]; at < rows.starts[row + 1]; ++at) {
      weights[at] = static_cast<std::int16_t>(std::lround(rows.neighbours[at].weight / scales[row]));
    }
  }
  image.add(index_of(relation, RowSection::kStarts), std::span<const std::uint64_t>(rows.starts));
  image.add(index_of(relation, RowSection::kScales), std::span<const float>(scales));
  if (items <= model::layout::kMaxNarrowItems) {
    add_columns<std::uint16_t>(rows, index_of(relation, RowSection::kColumns), image);
  } else {
    add_columns<std::uint32_t>(rows, index_of(relation, RowSection::kColumns), image);
  }
  image.add(index_of(relation, RowSection::kWeights), std::span<const std::int16_t>(weights));
}

void add_ranking(const model::ChosenRanking& ranking, Image& image) {
  model::layout::Ranking out;
  const std::string_view method = model::kRankingMethods[static_cast<std::size_t>(ranking.method)];
  method.copy(out.method.data(), out.method.size());
  out.trend_half_life = static_cast<std::uint32_t>(ranking.trend_half_life.count());
  out.cf_weight = ranking.cf_weight;
  out.discoveries = ranking.discoveries ? 1 : 0;
  image.add(index_of(Section::kRanking), std::span<const model::layout::Ranking>(&out, 1));
}

// --- The file

}  // namespace

Result<void> write_model(const TrainedModel& trained, const std::filesystem::path& path) {
  Image image;
  image.header.trained_at = trained.trained_at.time_since_epoch().count();
  image.header.items = static_cast<std::uint32_t>(trained.items.size());
  image.header.terms = static_cast<std::uint32_t>(trained.vocabulary.size());
  std::copy(std::begin(trained.blend_weights.by_relation), std::end(trained.blend_weights.by_relation),
            image.header.blend_weights.begin());
  trained.algorithm.copy(image.header.algorithm.data(), image.header.algorithm.size() - 1);
  if (auto added = add_items(trained, image); !added) return added;
  add_terms(trained, image);
  image.add(Section::kReranker, trained.reranker);
  add_ranking(trained.ranking, image);
  for (std::size_t p = 0; p < model::kRelations; ++p) {
    add_rows(trained.relations[p], trained.items.size(), static_cast<model::Relation>(p), image);
  }
  return model::replace_model(path, image.finish());
}

}  // namespace freshet::training
