// Represents an item's content as a sparse vector of the terms in its title, text and tags.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace freshet::model {

// Returns the item's terms, as 64-bit hashes (xxh3), with their counts: the words and pairs of
// core/text/words.h, and each tag as one term, distinct from the same word in a text. Ascending,
// distinct.
struct TermCount {
  std::uint64_t hash = 0;
  float count = 0;
};
std::vector<TermCount> content_terms(std::string_view title, std::string_view text,
                                     std::span<const std::string> tags);

// tf-idf vector over the model's vocabulary, L2 norm 1, ascending by term. Terms that the model
// does not know are dropped. Used for items that are newer than the model.
std::vector<TermWeight> content_vector(const Model& model, std::span<const TermCount> terms);

// Weight of a term that occurs `count` times, before normalization: (1 + ln count) · idf.
float term_weight(float count, float idf);
// Scales to L2 norm 1. Leaves an empty or zero vector unchanged.
void normalise(std::vector<TermWeight>& vector);

// Dot product. Both vectors must be ascending by term.
float dot(std::span<const TermWeight> a, std::span<const TermWeight> b);

}  // namespace freshet::model
