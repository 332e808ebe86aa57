#include "core/feed/recall_query.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/search/query_parser.h"
#include "core/search/search_schema.h"
#include "core/text/words.h"

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

using search::Presence;
using search::QueryClause;
using search::QueryToken;
using text::Form;
using Query = Xapian::Query;

double inverse_frequency(const Xapian::Database& database, double documents_with_term) {
  return std::log((database.get_doccount() + 1.0) / (documents_with_term + 0.5));
}

Query join(Query::op type, const std::vector<Query>& parts) { return {type, parts.begin(), parts.end()}; }

// Turns clauses into a query of at most kMaxQueryTerms terms.
class QueryBuilder {
 public:
  QueryBuilder(const Xapian::Stem& stemmer, const Xapian::Database& database, bool is_local)
      : stemmer_(stemmer), database_(database), is_local_(is_local) {}

  Query build(const std::vector<QueryClause>& clauses) {
    std::vector<Query> optional, required, excluded;
    // Operators first, so that a long text does not use up the terms.
    for (const QueryClause& each : clauses) {
      if (each.presence == Presence::kOptional) continue;
      Query part = each.is_phrase ? phrase(each.tokens) : all_of(each.tokens);
      if (!part.empty())
        (each.presence == Presence::kRequired ? required : excluded).push_back(std::move(part));
    }
    for (const QueryClause& each : clauses) {
      if (each.presence != Presence::kOptional) continue;
      if (!each.is_phrase)
        add_alternatives(each.tokens, optional);
      else if (Query part = phrase(each.tokens); !part.empty())
        optional.push_back(std::move(part));
    }
    Query query = join(Query::OP_OR, optional);
    if (!required.empty()) query = Query(Query::OP_AND_MAYBE, join(Query::OP_AND, required), query);
    return excluded.empty() ? query : Query(Query::OP_AND_NOT, query, join(Query::OP_OR, excluded));
  }

 private:
  // Other spellings get half the weight of the exact one.
  static constexpr double kVariantWeight = 0.5;
  static constexpr std::size_t kMaxFragments = 16;  // of one run

  // Empty beyond kMaxQueryTerms.
  Query term(const std::string& name) {
    if (terms_left_ == 0) return {};
    --terms_left_;
    return Query(name);
  }

  // A word as it is written, or its stem; and its other spellings in the index.
  void add_word(const std::string& word, std::vector<Query>& out) {
    const std::string main = stemmer_.is_none() ? word : search::kStemPrefix + stemmer_(word);
    Query written = term(main);
    if (written.empty()) return;
    out.push_back(std::move(written));
    const std::string unaccented = text::without_accents(word);
    add_variant(search::kUnaccentedPrefix + unaccented, main, out);
    if (unaccented != word)
      add_variant(stemmer_.is_none() ? unaccented : search::kStemPrefix + stemmer_(unaccented), main, out);
  }
  // Without this, a rarer variant would outweigh the exact spelling.
  void add_variant(const std::string& name, const std::string& main, std::vector<Query>& out) {
    double weight = kVariantWeight;
    if (is_local_) {
      const double with_variant = database_.get_termfreq(name);
      if (with_variant == 0) return;
      if (const double with_main = database_.get_termfreq(main); with_main > with_variant)
        weight *= inverse_frequency(database_, with_main) / inverse_frequency(database_, with_variant);
    }
    if (Query variant = term(name); !variant.empty())
      out.emplace_back(Query::OP_SCALE_WEIGHT, variant, weight);
  }

  void add_alternatives(const std::vector<QueryToken>& tokens, std::vector<Query>& out) {
    for (const QueryToken& each : tokens) {
      if (each.form == Form::kWord || each.form == Form::kCompound) {
        add_word(each.term, out);
      } else if (each.form == Form::kPair) {
        if (Query pair = term(each.term); !pair.empty()) out.push_back(std::move(pair));
      }
    }
    if (Query pieces = fragments(tokens); !pieces.empty())
      out.emplace_back(Query::OP_SCALE_WEIGHT, pieces, kVariantWeight);
  }

  // Every fragment of a run. Finds it where the dictionary splits the text around it differently.
  Query fragments(const std::vector<QueryToken>& tokens) {
    std::vector<Query> parts;
    for (const QueryToken& each : tokens) {
      if (each.form != Form::kFragment || parts.size() == kMaxFragments) continue;
      if (Query part = term(search::kFragmentPrefix + each.term); !part.empty())
        parts.push_back(std::move(part));
    }
    return parts.size() < 2 ? Query() : join(Query::OP_AND, parts);
  }

  Query all_of(const std::vector<QueryToken>& tokens) {
    std::vector<Query> words;
    for (const QueryToken& each : tokens) {
      std::vector<Query> alternatives;
      if (each.form == Form::kWord) add_word(each.term, alternatives);
      if (each.form == Form::kPair) alternatives.push_back(term(each.term));
      Query word = join(Query::OP_OR, alternatives);
      if (!word.empty()) words.push_back(std::move(word));
    }
    const Query pieces = fragments(tokens);
    const Query all = join(Query::OP_AND, words);
    return pieces.empty() ? all : Query(Query::OP_OR, all, pieces);
  }

  Query phrase(const std::vector<QueryToken>& tokens) {
    std::vector<Query> words;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const Form form = tokens[i].form;
      // The last character of a run connects its pairs to the next word.
      const bool connects =
          form == Form::kCharacter && i + 1 < tokens.size() && tokens[i + 1].run != tokens[i].run;
      if (form != Form::kWord && form != Form::kPair && !connects) continue;
      if (Query word = term(tokens[i].term); !word.empty()) words.push_back(std::move(word));
    }
    if (words.size() < 2 || phrases_ == kMaxPhrases) return join(Query::OP_AND, words);
    ++phrases_;
    const auto end = words.begin() + static_cast<std::ptrdiff_t>(std::min(words.size(), kMaxPhraseWords));
    std::vector<Query> parts{
        Query(Query::OP_PHRASE, words.begin(), end, static_cast<Xapian::termcount>(end - words.begin()))};
    parts.insert(parts.end(), end, words.end());
    return join(Query::OP_AND, parts);
  }

  const Xapian::Stem& stemmer_;
  const Xapian::Database& database_;
  const bool is_local_;
  std::size_t terms_left_ = kMaxQueryTerms, phrases_ = 0;
};

// The words of each clause that were written together.
std::vector<QueryRun> runs_of(const std::vector<QueryClause>& clauses) {
  std::vector<QueryRun> runs;
  std::size_t terms_left = kMaxQueryTerms;
  for (const QueryClause& clause : clauses) {
    if (clause.is_phrase || clause.presence == Presence::kExcluded) continue;
    QueryRun run;
    for (const QueryToken& each : clause.tokens) {
      if ((each.form != Form::kWord && each.form != Form::kPair) || terms_left == 0) continue;
      run.terms.push_back({each.term, each.position});
      --terms_left;
    }
    if (run.terms.size() > 1) runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace

TextQuery text_query(std::string_view text, const Xapian::Stem& stemmer, const Xapian::Database& database,
                     bool is_local) {
  const std::vector<QueryClause> clauses = search::parse_query(text);
  return {QueryBuilder(stemmer, database, is_local).build(clauses), runs_of(clauses)};
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
    entry->second = inverse_frequency(database, database.get_termfreq(term));
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
