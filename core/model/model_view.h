// Typed spans over the sections of a model file, and the validation that makes them safe to use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/model/model_layout.h"

namespace freshet::model {

struct RowsView {
  std::span<const std::uint64_t> starts;
  std::span<const float> scales;
  std::span<const std::uint16_t> narrow;  // columns; one of the two is empty
  std::span<const std::uint32_t> wide;
  std::span<const std::int16_t> weights;
};

struct ModelView {
  const layout::Header* header = nullptr;
  std::span<const layout::Item> items;
  std::span<const std::uint32_t> slots;
  std::span<const layout::TextRef> tags;
  std::span<const char> text;
  std::span<const std::uint64_t> term_starts;
  std::span<const TermWeight> terms;
  std::span<const std::uint64_t> vocabulary;
  std::span<const float> idf;
  std::span<const float> reranker;
  std::span<const layout::Ranking> ranking;  // one
  std::array<RowsView, kRelations> rows;
};

// The method's name without padding.
inline std::string_view method_name(const layout::Ranking& ranking) {
  const std::string_view name(ranking.method.data(), ranking.method.size());
  return name.substr(0, name.find('\0'));
}

// Looks the item up by id in the hash table. Returns kNoItem if it is absent. O(1).
std::uint32_t find_item(const ModelView& view, std::string_view id);
// The same for an id whose home_slot() is known.
std::uint32_t find_item_from(const ModelView& view, std::size_t slot, std::string_view id);

// Verifies every checksum, size, offset, index and number of the file in `bytes`, which must be
// aligned to 64. Never reads out of bounds, whatever the content. O(bytes). Errors: as for
// Model::open().
Result<ModelView> checked_view(std::span<const std::byte> bytes);
// Creates the view of bytes that checked_view() has verified before. O(1).
Result<ModelView> trusted_view(std::span<const std::byte> bytes);

}  // namespace freshet::model
