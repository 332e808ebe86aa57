#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/model/model_view.h"

namespace freshet::model {
namespace {

using layout::Header;
using layout::RowSection;
using layout::Section;

tl::unexpected<Error> corrupt_error(std::string reason) {
  return fail(ErrorCode::kInvalid, "model_corrupt", {}, "the model file is damaged: " + std::move(reason));
}

Result<const Header*> check_header(std::span<const std::byte> bytes) {
  // The part before the checksum is the same in every version.
  if (bytes.size() < layout::kChecksumStart) return corrupt_error("too short");
  const auto* const header = reinterpret_cast<const Header*>(bytes.data());
  if (header->magic != layout::kMagic) return corrupt_error("not a model file");
  if (header->version != layout::kVersion) {
    return fail(ErrorCode::kInvalid, "model_version", {},
                "the model file has version " + std::to_string(header->version) +
                    "; this program supports version " + std::to_string(layout::kVersion) +
                    ". Run freshetctl train.");
  }
  if (bytes.size() < sizeof(Header)) return corrupt_error("too short");
  if (header->header_bytes != sizeof(Header) || header->file_bytes != bytes.size()) {
    return corrupt_error("the length does not match the header");
  }
  return header;
}

bool has_valid_checksum(std::span<const std::byte> bytes, const Header& header) {
  const auto covered = bytes.subspan(layout::kChecksumStart);
  return XXH3_64bits(covered.data(), covered.size()) == header.checksum;
}

bool all_finite(std::span<const float> numbers) {
  for (const float number : numbers) {
    if (!std::isfinite(number)) return false;
  }
  return true;
}

// Requires 0 = starts[0] <= starts[1] <= … <= starts.back() = entries.
bool are_valid_starts(std::span<const std::uint64_t> starts, std::size_t entries) {
  if (starts.empty() || starts.front() != 0 || starts.back() != entries) return false;
  for (std::size_t i = 1; i < starts.size(); ++i) {
    if (starts[i] < starts[i - 1]) return false;
  }
  return true;
}

template <class Column>
bool all_below(std::span<const Column> columns, std::uint32_t items) {
  for (const Column column : columns) {
    if (column >= items) return false;
  }
  return true;
}

// Maps the sections of a file and records whether any of them was invalid.
class SectionMapper {
 public:
  explicit SectionMapper(std::span<const std::byte> bytes, const Header& header)
      : bytes_(bytes), header_(header) {}

  template <class T>
  std::span<const T> all(std::size_t section) {
    const layout::Extent& extent = header_.sections[section];
    if (extent.offset % layout::kAlignment != 0 || extent.offset < sizeof(Header) ||
        extent.offset > bytes_.size() || extent.bytes > bytes_.size() - extent.offset ||
        extent.bytes % sizeof(T) != 0) {
      ok_ = false;
      return {};
    }
    return {reinterpret_cast<const T*>(bytes_.data() + extent.offset), extent.bytes / sizeof(T)};
  }
  template <class T>
  std::span<const T> exactly(std::size_t count, std::size_t section) {
    const auto found = all<T>(section);
    ok_ = ok_ && found.size() == count;
    return found;
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> bytes_;
  const Header& header_;
  bool ok_ = true;
};

Result<ModelView> map_sections(std::span<const std::byte> bytes, const Header& header) {
  SectionMapper sections(bytes, header);
  const std::size_t items = header.items;
  ModelView view;
  view.header = &header;
  view.items = sections.exactly<layout::Item>(items, index_of(Section::kItems));
  view.slots = sections.exactly<std::uint32_t>(layout::slot_count(items), index_of(Section::kSlots));
  view.tags = sections.all<layout::TextRef>(index_of(Section::kTags));
  view.text = sections.all<char>(index_of(Section::kText));
  view.term_starts = sections.exactly<std::uint64_t>(items + 1, index_of(Section::kTermStarts));
  view.terms = sections.all<TermWeight>(index_of(Section::kTerms));
  view.vocabulary = sections.exactly<std::uint64_t>(header.terms, index_of(Section::kVocabulary));
  view.idf = sections.exactly<float>(header.terms, index_of(Section::kIdf));
  view.reranker = sections.all<float>(index_of(Section::kReranker));
  view.ranking = sections.exactly<layout::Ranking>(1, index_of(Section::kRanking));
  for (std::size_t p = 0; p < kRelations; ++p) {
    const Relation relation = static_cast<Relation>(p);
    RowsView& rows = view.rows[p];
    rows.starts = sections.exactly<std::uint64_t>(items + 1, index_of(relation, RowSection::kStarts));
    rows.scales = sections.exactly<float>(items, index_of(relation, RowSection::kScales));
    rows.weights = sections.all<std::int16_t>(index_of(relation, RowSection::kWeights));
    const std::size_t columns = index_of(relation, RowSection::kColumns);
    if (items <= layout::kMaxNarrowItems) {
      rows.narrow = sections.exactly<std::uint16_t>(rows.weights.size(), columns);
    } else {
      rows.wide = sections.exactly<std::uint32_t>(rows.weights.size(), columns);
    }
  }
  if (!sections.ok()) return corrupt_error("a section is out of bounds");
  return view;
}

// Returns whether every item is found by its id and the search for any other id terminates.
bool has_valid_slots(const ModelView& view) {
  std::size_t used = 0;
  for (const std::uint32_t item : view.slots) {
    if (item == layout::kNoItem) continue;
    if (item >= view.items.size()) return false;
    ++used;
  }
  if (used != view.items.size()) return false;
  for (std::uint32_t item = 0; item < view.items.size(); ++item) {
    const layout::TextRef& id = view.items[item].id;
    if (find_item(view, {view.text.data() + id.offset, id.bytes}) != item) return false;
  }
  return true;
}

bool has_valid_items(const ModelView& view) {
  const auto inside = [&](const layout::TextRef& text) {
    return std::uint64_t{text.offset} + text.bytes <= view.text.size();
  };
  for (const layout::TextRef& tag : view.tags) {
    if (!inside(tag)) return false;
  }
  std::string_view previous_id;
  for (std::size_t i = 0; i < view.items.size(); ++i) {
    const layout::Item& item = view.items[i];
    if (!inside(item.id) || !inside(item.title) || !inside(item.author)) return false;
    if (std::uint64_t{item.first_tag} + item.tags > view.tags.size()) return false;
    if (item.published < 0 || item.published > kMaxUnixSeconds) return false;
    if (!std::isfinite(item.count) || !std::isfinite(item.decayed_count)) return false;
    const std::string_view id(view.text.data() + item.id.offset, item.id.bytes);
    if (id.empty() || (i > 0 && id <= previous_id)) return false;
    previous_id = id;
  }
  return has_valid_slots(view);
}

bool has_valid_terms(const ModelView& view) {
  if (!are_valid_starts(view.term_starts, view.terms.size()) || !all_finite(view.idf)) return false;
  for (std::size_t i = 1; i < view.vocabulary.size(); ++i) {
    if (view.vocabulary[i] <= view.vocabulary[i - 1]) return false;
  }
  for (std::size_t item = 0; item < view.items.size(); ++item) {
    for (std::uint64_t at = view.term_starts[item]; at < view.term_starts[item + 1]; ++at) {
      const TermWeight& term = view.terms[at];
      if (term.term >= view.vocabulary.size() || !std::isfinite(term.weight)) return false;
      if (at > view.term_starts[item] && term.term <= view.terms[at - 1].term) return false;
    }
  }
  return true;
}

bool is_valid_ranking(const layout::Ranking& ranking) {
  constexpr std::uint32_t kMaxHalfLife = 365 * 86400;
  constexpr float kMaxWeight = 1000;
  return ranking.method.back() == '\0' &&
         std::ranges::find(kRankingMethods, method_name(ranking)) != kRankingMethods.end() &&
         ranking.trend_half_life <= kMaxHalfLife && ranking.cf_weight >= 0 &&
         ranking.cf_weight <= kMaxWeight && ranking.discoveries <= 1;
}

bool are_valid_rows(const RowsView& rows, std::uint32_t items) {
  return are_valid_starts(rows.starts, rows.weights.size()) && all_finite(rows.scales) &&
         all_below(rows.narrow, items) && all_below(rows.wide, items);
}

}  // namespace

std::size_t layout::home_slot(std::string_view id, std::size_t slots) {
  return XXH3_64bits(id.data(), id.size()) & (slots - 1);
}

std::uint32_t find_item(const ModelView& view, std::string_view id) {
  return find_item_from(view, layout::home_slot(id, view.slots.size()), id);
}

std::uint32_t find_item_from(const ModelView& view, std::size_t slot, std::string_view id) {
  for (;; slot = (slot + 1) & (view.slots.size() - 1)) {
    const std::uint32_t item = view.slots[slot];
    if (item == layout::kNoItem) return item;
    const layout::TextRef& item_id = view.items[item].id;
    if (std::string_view(view.text.data() + item_id.offset, item_id.bytes) == id) return item;
  }
}

Result<ModelView> checked_view(std::span<const std::byte> bytes) {
  FRESHET_TRY(header, check_header(bytes));
  const Header& head = **header;
  if (!has_valid_checksum(bytes, head)) return corrupt_error("wrong checksum");
  if (head.trained_at < 0 || head.trained_at > kMaxUnixSeconds || !all_finite(head.blend_weights) ||
      head.algorithm.back() != '\0') {
    return corrupt_error("invalid number in the header");
  }
  auto view = map_sections(bytes, head);
  if (!view) return view;
  if (!has_valid_items(*view)) return corrupt_error("invalid item table");
  if (!has_valid_terms(*view)) return corrupt_error("invalid terms");
  if (!all_finite(view->reranker)) return corrupt_error("invalid re-ranker");
  if (!is_valid_ranking(view->ranking.front())) return corrupt_error("invalid ranking");
  for (const RowsView& rows : view->rows) {
    if (!are_valid_rows(rows, head.items)) return corrupt_error("invalid relations");
  }
  return view;
}

Result<ModelView> trusted_view(std::span<const std::byte> bytes) {
  FRESHET_TRY(header, check_header(bytes));
  return map_sections(bytes, **header);
}

}  // namespace freshet::model
