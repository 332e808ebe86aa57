// The content of an item as a sparse vector: terms of its title, text and tags; CJK text as
// character bigrams.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace freshet::model {

// The terms of an item with their counts, by the 64-bit hash (xxh3) of each: words lower-cased, CJK
// as bigrams, tags whole (in a space of their own, "#tag"). Ascending, distinct.
struct TermCount {
  std::uint64_t hash = 0;
  float count = 0;
};
std::vector<TermCount> content_terms(std::string_view title, std::string_view text,
                                     std::span<const std::string> tags);

// tf-idf by the model's vocabulary, L2 norm 1, ascending by term; terms the model does not know are
// left out. For items that are newer than the model.
std::vector<TermWeight> content_vector(const Model& model, std::span<const TermCount> terms);

// What a term that stands `count` times weighs before the vector is brought to length 1: (1 + ln
// count) · idf.
float term_weight(float count, float idf);
// L2 norm 1; an empty vector, or one of zeros, stays.
void normalise(std::vector<TermWeight>& vector);

// Σ of products of equal terms. Both ascending by term.
float dot(std::span<const TermWeight> a, std::span<const TermWeight> b);

}  // namespace freshet::model
