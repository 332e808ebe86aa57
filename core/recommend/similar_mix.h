// Mixes what readers read after an item with items of similar content and with the trend.
#pragma once

#include <cstddef>
#include <vector>

#include "core/recommend/ports.h"

namespace freshet::recommend {

// Best first, each item once, scores > 0. Null is empty.
struct SimilarSources {
  std::vector<SimilarItem> covisits;  // scores: reads after the item, decayed
  std::vector<SimilarItem> content;   // scores: of the model or the index
  SharedItems trend;                  // scores: views, decayed
};

// Number of reads after an item that weigh as much as the trend and as the content.
inline constexpr double kCovisitPrior = 20;

// Returns up to `limit` items other than `item`, best first. With W reads after the item and prior
// κ, an item's score is
//   α · (its reads + κ · its share of the trend) / (W + κ) + (1 − α) · its share of content
// with α = W / (W + κ), or 1 if there is no content. Without reads the content stays as it is.
// `source` is the first that has the item. O(trend + n · log n) for n other items and `limit`.
std::vector<SimilarItem> mix_similar(const SimilarSources& sources, const ItemId& item, std::size_t limit);

}  // namespace freshet::recommend
