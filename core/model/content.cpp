#include "core/model/content.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "core/base/utf8.h"
#include "core/text/words.h"

namespace freshet::model {
namespace {

// Tags and words use different hash seeds, so that "#music" in a text is not the tag "music".
constexpr XXH64_hash_t kWordSeed = 0;
constexpr XXH64_hash_t kTagSeed = 1;

void add_words(std::string_view text, std::vector<std::uint64_t>& hashes) {
  text::for_each_token(text, [&](const text::Token& token) {
    if (token.form == text::Form::kWord || token.form == text::Form::kPair)
      hashes.push_back(XXH3_64bits_withSeed(token.term.data(), token.term.size(), kWordSeed));
  });
}

}  // namespace

std::vector<TermCount> content_terms(std::string_view title, std::string_view text,
                                     std::span<const std::string> tags) {
  std::vector<std::uint64_t> hashes;
  add_words(title, hashes);
  add_words(text, hashes);
  for (const std::string& tag : tags) {
    const std::string key = utf8::fold(tag);
    hashes.push_back(XXH3_64bits_withSeed(key.data(), key.size(), kTagSeed));
  }
  std::sort(hashes.begin(), hashes.end());
  std::vector<TermCount> terms;
  for (const std::uint64_t hash : hashes) {
    if (terms.empty() || terms.back().hash != hash) terms.push_back({hash, 0});
    terms.back().count += 1;
  }
  return terms;
}

float term_weight(float count, float idf) { return (1 + std::log(count)) * idf; }

void normalise(std::vector<TermWeight>& vector) {
  float squares = 0;
  for (const TermWeight& term : vector) squares += term.weight * term.weight;
  if (squares <= 0) return;
  const float scale = 1 / std::sqrt(squares);
  for (TermWeight& term : vector) term.weight *= scale;
}

std::vector<TermWeight> content_vector(const Model& model, std::span<const TermCount> terms) {
  std::vector<TermWeight> vector;
  for (const TermCount& term : terms) {
    if (const auto known = model.idf(term.hash)) {
      vector.push_back({known->term, term_weight(term.count, known->weight)});
    }
  }
  normalise(vector);  // the vocabulary is ascending by hash, and so are `terms`
  return vector;
}

float dot(std::span<const TermWeight> a, std::span<const TermWeight> b) {
  float sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].term < b[j].term) {
      ++i;
    } else if (b[j].term < a[i].term) {
      ++j;
    } else {
      sum += a[i++].weight * b[j++].weight;
    }
  }
  return sum;
}

}  // namespace freshet::model
