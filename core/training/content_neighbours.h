// Content relations: each item's nearest neighbours by cosine of their term vectors, and columns
// for cold-start items, borrowed from their neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/content.h"
#include "core/training/columns.h"

namespace freshet::training {

struct Content {
  std::vector<std::uint64_t> vocabulary;              // ascending
  std::vector<float> idf;                             // ln(items / items with the term)
  std::vector<std::vector<model::TermWeight>> terms;  // by item; L2 norm 1, or empty
};

// Builds the vocabulary and the vectors. Ignores terms that only one item has, and keeps the 100
// heaviest terms per item.
Content build_content(std::span<const std::vector<model::TermCount>> items);

// The `limit` nearest neighbours of every item, weighted by cosine. Ignores terms of more than
// 3,000 items, which weigh little. Takes O(n²) for each term that n items have.
Columns content_columns(const Content& content, std::size_t limit);

inline constexpr std::size_t kMaxDonors = 20;

// For each cold item: the mean of the columns of its kMaxDonors nearest donors by content, weighted
// by cosine and pruned to `neighbours`. The columns of other items are empty.
Columns cold_start_columns(const Content& content, const Columns& columns, const std::vector<bool>& is_donor,
                           const std::vector<bool>& is_cold, std::size_t neighbours);

}  // namespace freshet::training
