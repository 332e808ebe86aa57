#include "core/feed/recall_query.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

#include "core/base/utf8.h"
#include "core/search/search_schema.h"

namespace freshet::feed {
namespace {

// Tags are chosen by the site's editors and say more than a single title word.
constexpr double kTagBoost = 2.0;
constexpr std::chrono::seconds kCacheTtl{30};
constexpr std::size_t kMaxCachedEntries = 20000;  // each: items, terms
constexpr std::size_t kMaxTermsPerItem = 64;

// Title words may match anywhere in an item; tags match only tags.
std::string search_term(const std::string& term) {
  return term[0] == search::kTitlePrefix ? term.substr(1) : term;
}

// Applies the limits kMaxQueryWords, kMaxPhrases and kMaxPhraseWords to a parsed query.
class QueryLimiter {
 public:
  Xapian::Query operator()(const Xapian::Query& query) {
    using Query = Xapian::Query;
    const Query::op type = query.get_type();
    const std::size_t parts = query.get_num_subqueries();
    if (type == Query::LEAF_TERM) return limit_term(query);
    if (parts == 0) return query;
    const bool phrase = type == Query::OP_PHRASE || type == Query::OP_NEAR;
    const std::size_t max_parts = phrase ? std::min(parts, kMaxPhraseWords) : parts;
    std::vector<Query> limited;
    for (std::size_t i = 0; i < max_parts; ++i) {
      Query part = (*this)(query.get_subquery(i));
      // If the required side is empty, nothing is left to exclude from or to prefer.
      if (part.empty() && i == 0 && (type == Query::OP_AND_NOT || type == Query::OP_AND_MAYBE)) return part;
      if (!part.empty()) limited.push_back(std::move(part));
    }
    if (limited.size() < 2) return limited.empty() ? Query() : limited.front();
    if (!phrase) return {type, limited.begin(), limited.end()};
    if (phrases_ == kMaxPhrases) return {Query::OP_AND, limited.begin(), limited.end()};
    ++phrases_;
    return {type, limited.begin(), limited.end(), static_cast<Xapian::termcount>(limited.size())};
  }

 private:
  // A single character of a script without spaces counts as half a word, since Xapian adds it as
  // n-grams together with its neighbors.
  Xapian::Query limit_term(const Xapian::Query& term) {
    const std::string name = *term.get_terms_begin();
    const auto first = static_cast<unsigned char>(name.empty() ? 0 : name[0]);
    const bool one_letter = first >= 0xE0 && name.size() <= (first >= 0xF0 ? 4U : 3U);
    const std::size_t cost = one_letter ? 1 : 2;
    if (cost > half_words_left_) return {};
    half_words_left_ -= cost;
    return term;
  }

  std::size_t half_words_left_ = 2 * kMaxQueryWords, phrases_ = 0;
};

}  // namespace

Xapian::Query text_query(std::string_view whole, const Xapian::Stem& stemmer) {
  const std::string text(utf8::prefix(whole, kMaxQueryBytes));
  using Parser = Xapian::QueryParser;
  Parser parser;
  parser.set_stemmer(stemmer);
  parser.set_stemming_strategy(Parser::STEM_SOME);
  parser.set_default_op(Xapian::Query::OP_OR);
  const auto parsed = [&](const std::string& part, unsigned flags) -> std::optional<Xapian::Query> {
    try {
      return parser.parse_query(part, flags);
    } catch (const Xapian::QueryParserError&) {
      return std::nullopt;
    }
  };
  auto query = parsed(text, Parser::FLAG_CJK_NGRAM | Parser::FLAG_PHRASE | Parser::FLAG_LOVEHATE);
  // Without operators there should be no syntax errors, but Xapian 1.4 also rejects texts that
  // alternate between scripts with and without spaces, such as 手机 a 价格 b. It accepts each word by
  // itself.
  if (!query) query = parsed(text, Parser::FLAG_CJK_NGRAM);
  if (!query) {
    std::vector<Xapian::Query> word_queries;
    std::istringstream rest(text);
    for (std::string word; rest >> word;) {
      auto word_query = parsed(word, Parser::FLAG_CJK_NGRAM);
      if (!word_query) word_query = parsed(word, 0);
      if (word_query) word_queries.push_back(std::move(*word_query));
    }
    query = Xapian::Query(Xapian::Query::OP_OR, word_queries.begin(), word_queries.end());
  }
  return QueryLimiter()(*query);
}

void InterestTerms::clear_cache() {
  terms_.clear();
  idf_.clear();
}

const std::vector<std::string>& InterestTerms::item_terms(const Xapian::Database& database,
                                                          const ItemId& item) {
  static const std::vector<std::string> none;
  if (const auto known = terms_.find(item); known != terms_.end()) return known->second;
  const auto found = database.postlist_begin(search::id_term(item));
  // Not cached: the next commit may add it.
  if (found == database.postlist_end(search::id_term(item))) return none;
  std::vector<std::string>& terms = terms_[item];
  for (const char prefix : {search::kTagPrefix, search::kTitlePrefix}) {
    auto term = database.termlist_begin(*found);
    for (term.skip_to(std::string(1, prefix)); term != database.termlist_end(*found); ++term) {
      const std::string name = *term;
      if (name[0] != prefix || terms.size() == kMaxTermsPerItem) break;
      terms.push_back(name);
    }
  }
  return terms;
}

double InterestTerms::idf(const Xapian::Database& database, const std::string& term) {
  const auto [entry, missing] = idf_.try_emplace(term);
  if (missing) {
    const double all = database.get_doccount(), with = database.get_termfreq(term);
    entry->second = std::log((all + 1) / (with + 0.5));
  }
  return entry->second;
}

Xapian::Query InterestTerms::build_query(const Xapian::Database& database,
                                         const std::vector<Interest>& interests, double total) {
  const Clock::time_point now = Clock::now();
  if (now >= cache_expires_at_ || terms_.size() > kMaxCachedEntries || idf_.size() > kMaxCachedEntries) {
    clear_cache();
    cache_expires_at_ = now + kCacheTtl;
  }
  std::unordered_map<std::string, double> weights;
  for (std::size_t i = 0; i < std::min(interests.size(), kMaxInterests); ++i) {
    if (!(interests[i].weight > 0) || !std::isfinite(interests[i].weight)) continue;
    for (const std::string& term : item_terms(database, interests[i].item)) {
      weights[search_term(term)] += interests[i].weight * (term[0] == search::kTagPrefix ? kTagBoost : 1.0);
    }
  }
  struct Term {
    double worth, weight;
    std::string name;
  };
  std::vector<Term> terms;
  terms.reserve(weights.size());
  for (auto& [name, weight] : weights) terms.push_back({weight * idf(database, name), weight, name});
  const std::size_t count = std::min(terms.size(), kMaxTerms);
  std::partial_sort(
      terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(count), terms.end(),
      [](const Term& a, const Term& b) { return a.worth != b.worth ? a.worth > b.worth : a.name < b.name; });
  terms.resize(count);
  double worth = 0;
  for (const Term& each : terms) worth += each.worth;
  if (!(worth > 0 && std::isfinite(worth))) return {};
  std::vector<Xapian::Query> scaled;
  scaled.reserve(terms.size());
  for (const Term& each : terms) {
    scaled.emplace_back(Xapian::Query::OP_SCALE_WEIGHT, Xapian::Query(each.name),
                        each.weight * total / worth);
  }
  return {Xapian::Query::OP_OR, scaled.begin(), scaled.end()};
}

}  // namespace freshet::feed
