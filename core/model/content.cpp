#include "core/model/content.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "core/base/utf8.h"
#include "core/model/unicode_classes.h"

namespace freshet::model {
namespace {

constexpr std::size_t kMaxWordBytes = 64;  // bytes; longer ones are URLs or encoded data
// Tags and words use different hash seeds, so that "#music" in a text is not the tag "music".
constexpr XXH64_hash_t kWordSeed = 0;
constexpr XXH64_hash_t kTagSeed = 1;

void append_utf8(std::string& word, char32_t c) {
  if (c < 0x80) {
    word += static_cast<char>(c);
  } else if (c < 0x800) {
    word += static_cast<char>(0xC0 | (c >> 6));
    word += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    word += static_cast<char>(0xE0 | (c >> 12));
    word += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    word += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    word += static_cast<char>(0xF0 | (c >> 18));
    word += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    word += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    word += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// Splits text into words and bigrams, one code point at a time.
class Tokenizer {
 public:
  explicit Tokenizer(std::vector<std::uint64_t>& hashes) : hashes_(hashes) {}

  void tokenize(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const auto [c, size] = utf8::decode(text, at);
      at += size == 0 ? 1 : size;
      if (size != 0 && is_cjk(c)) {
        end_word();
        add_cjk(c);
      } else if (size != 0 && is_word(c)) {
        end_run();
        append_utf8(word_, lower_case(c));
      } else {
        end_word();
        end_run();
      }
    }
    end_word();
    end_run();
  }

 private:
  void add_term(const std::string& term) {
    hashes_.push_back(XXH3_64bits_withSeed(term.data(), term.size(), kWordSeed));
  }
  void end_word() {
    if (!word_.empty() && word_.size() <= kMaxWordBytes) add_term(word_);
    word_.clear();
  }
  void add_cjk(char32_t c) {
    if (cjk_run_ > 0) {
      std::string pair;
      append_utf8(pair, last_cjk_);
      append_utf8(pair, c);
      add_term(pair);
    }
    last_cjk_ = c;
    ++cjk_run_;
  }
  void end_run() {
    if (cjk_run_ == 1) {  // an isolated character is a term of its own
      std::string single;
      append_utf8(single, last_cjk_);
      add_term(single);
    }
    cjk_run_ = 0;
  }

  std::vector<std::uint64_t>& hashes_;
  std::string word_;
  char32_t last_cjk_ = 0;
  std::size_t cjk_run_ = 0;  // length of the current run of CJK characters
};

}  // namespace

std::vector<TermCount> content_terms(std::string_view title, std::string_view text,
                                     std::span<const std::string> tags) {
  std::vector<std::uint64_t> hashes;
  Tokenizer tokenizer(hashes);
  tokenizer.tokenize(title);
  tokenizer.tokenize(text);
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
