// Relations by content: an item's nearest by cosine of their term vectors, and for items that
// nobody touched yet a column of others' making.
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

// From each item's terms. A term counts when two items or more have it; of an item the 100 heaviest
// stay.
Content build_content(std::span<const std::vector<model::TermCount>> items);

// Every item's `most` nearest: weight is the cosine. Terms that more than 3,000 items have find
// nobody (and weigh little). O(Σ over terms of items²).
Columns content_columns(const Content& content, std::size_t limit);

inline constexpr std::size_t kMaxDonors = 20;

// For each item that borrows: the mean of the columns of its kLenders nearest by content among
// those that lend, weighted by nearness, pruned to `neighbours`. Other items' columns are empty.
Columns cold_start_columns(const Content& content, const Columns& columns, const std::vector<bool>& is_donor,
                         const std::vector<bool>& is_cold, std::size_t neighbours);

}  // namespace freshet::training
