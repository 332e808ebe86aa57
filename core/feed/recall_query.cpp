#include "core/feed/recall_query.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/base/time.h"
#include "core/search/query_parser.h"
#include "core/search/search_schema.h"
#include "core/text/words.h"

namespace freshet::feed {
namespace {

// Tags are chosen by the site's editors and say more than a single title word.
constexpr double kTagBoost = 2.0;
constexpr std::size_t kMaxCachedEntries = 20000;  // each: items, terms
constexpr std::size_t kMaxTermsPerItem = 64;

using search::Presence;
using search::QueryClause;
using search::QueryToken;
using text::Form;
using Query = Xapian::Query;

double inverse_frequency(const Xapian::Database& database, double documents_with_term) {
  return std::log((database.get_doccount() + 1.0) / (documents_with_term + 0.5));
}

Query join(Query::op type, const std::vector<Query>& parts) { return {type, parts.begin(), parts.end()}; }

std::vector<Query> weighted(const std::vector<search::WeightedTerm>& terms) {
  std::vector<Query> parts;
  parts.reserve(terms.size());
  for (const search::WeightedTerm& each : terms) {
    if (each.factor == 1)
      parts.emplace_back(each.name);
    else
      parts.emplace_back(Query::OP_SCALE_WEIGHT, Query(each.name), each.factor);
  }
  return parts;
}

// Turns clauses into a query of at most kMaxQueryTerms terms.
class QueryBuilder {
 public:
  QueryBuilder(const Xapian::Stem& stemmer, const Xapian::Database& database, bool is_local)
      : stemmer_(stemmer), database_(database), is_local_(is_local) {}

  TextQuery build(const std::vector<QueryClause>& clauses) {
    std::vector<search::WeightedTerm> words;
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
      if (!each.is_phrase) add_words(each.tokens, words);
      Query part = each.is_phrase ? phrase(each.tokens) : half_weighted(fragments(each.tokens));
      if (!part.empty()) optional.push_back(std::move(part));
    }
    std::vector<Query> alternatives = weighted(words);
    alternatives.insert(alternatives.end(), optional.begin(), optional.end());
    Query query = join(Query::OP_OR, alternatives);
    if (!required.empty()) query = Query(Query::OP_AND_MAYBE, join(Query::OP_AND, required), query);
    if (!excluded.empty()) query = Query(Query::OP_AND_NOT, query, join(Query::OP_OR, excluded));
    if (!optional.empty() || !required.empty() || !excluded.empty()) words.clear();
    return {query, std::move(words), {}};
  }

 private:
  // Other spellings get half the weight of the exact one.
  static constexpr double kVariantWeight = 0.5;
  static constexpr std::size_t kMaxFragments = 16;  // of one run

  // False beyond kMaxQueryTerms.
  bool take_term() {
    if (terms_left_ == 0) return false;
    --terms_left_;
    return true;
  }
  // Empty beyond kMaxQueryTerms.
  Query term(const std::string& name) { return take_term() ? Query(name) : Query(); }
  static Query half_weighted(const Query& query) {
    return query.empty() ? query : Query(Query::OP_SCALE_WEIGHT, query, kVariantWeight);
  }

  // A word as it is written, or its stem; and its other spellings in the index.
  void add_word(const std::string& word, std::vector<search::WeightedTerm>& out) {
    const std::string main = search::stem_term(stemmer_, word);
    if (!take_term()) return;
    out.push_back({main, 1});
    const std::string unaccented = text::without_accents(word);
    add_variant(search::kUnaccentedPrefix + unaccented, main, out);
    if (unaccented != word) add_variant(search::stem_term(stemmer_, unaccented), main, out);
  }
  // Without this, a rarer variant would outweigh the exact spelling.
  void add_variant(const std::string& name, const std::string& main, std::vector<search::WeightedTerm>& out) {
    double weight = kVariantWeight;
    if (is_local_) {
      const double with_variant = database_.get_termfreq(name);
      if (with_variant == 0) return;
      if (const double with_main = database_.get_termfreq(main); with_main > with_variant)
        weight *= inverse_frequency(database_, with_main) / inverse_frequency(database_, with_variant);
    }
    if (take_term()) out.push_back({name, weight});
  }

  void add_words(const std::vector<QueryToken>& tokens, std::vector<search::WeightedTerm>& out) {
    for (const QueryToken& each : tokens) {
      if (each.form == Form::kWord || each.form == Form::kCompound)
        add_word(each.term, out);
      else if (each.form == Form::kPair && take_term())
        out.push_back({each.term, 1});
    }
  }

  using Tokens = std::span<const QueryToken>;

  // Every fragment of a run. Finds it where the dictionary splits the text around it differently.
  Query fragments(Tokens tokens) {
    std::vector<Query> parts;
    for (const QueryToken& each : tokens) {
      if (each.form != Form::kFragment || parts.size() == kMaxFragments) continue;
      if (Query part = term(search::kFragmentPrefix + each.term); !part.empty())
        parts.push_back(std::move(part));
    }
    return join(Query::OP_AND, parts);
  }

  // Splits tokens where a run or compound ends.
  static std::vector<Tokens> runs_in(Tokens tokens) {
    std::vector<Tokens> runs;
    while (!tokens.empty()) {
      const auto end =
          std::ranges::find_if(tokens, [&](const QueryToken& each) { return each.run != tokens[0].run; });
      const auto size = static_cast<std::size_t>(end - tokens.begin());
      runs.push_back(tokens.first(size));
      tokens = tokens.subspan(size);
    }
    return runs;
  }
  static const QueryToken* compound_of(Tokens run) {
    const auto found = std::ranges::find(run, Form::kCompound, &QueryToken::form);
    return found == run.end() ? nullptr : &*found;
  }

  // All words of a run; the whole of a compound.
  Query all_of_run(Tokens run) {
    const QueryToken* const compound = compound_of(run);
    std::vector<Query> words;
    for (const QueryToken& each : run) {
      std::vector<search::WeightedTerm> alternatives;
      if (compound != nullptr ? &each == compound : each.form == Form::kWord)
        add_word(each.term, alternatives);
      if (each.form == Form::kPair && take_term()) alternatives.push_back({each.term, 1});
      Query word = any_of(alternatives);
      if (!word.empty()) words.push_back(std::move(word));
    }
    const Query pieces = fragments(run);
    const Query all = join(Query::OP_AND, words);
    return pieces.empty() ? all : Query(Query::OP_OR, all, pieces);
  }
  Query all_of(Tokens tokens) {
    std::vector<Query> parts;
    for (const Tokens run : runs_in(tokens)) {
      if (Query part = all_of_run(run); !part.empty()) parts.push_back(std::move(part));
    }
    return join(Query::OP_AND, parts);
  }

  Query phrase(Tokens tokens) {
    const std::vector<Tokens> runs = runs_in(tokens);
    std::vector<Query> words, compounds;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const Form form = tokens[i].form;
      // The last character of a run connects its pairs to the next word.
      const bool connects =
          form == Form::kCharacter && i + 1 < tokens.size() && tokens[i + 1].run != tokens[i].run;
      const bool is_word = form == Form::kWord || form == Form::kPair || connects;
      if (!is_word && form != Form::kCompound) continue;
      if (Query word = term(tokens[i].term); !word.empty())
        (is_word ? words : compounds).push_back(std::move(word));
    }
    if (runs.size() == 1 && !compounds.empty()) return compounds.front();
    Query all = adjacent(words, compounds);
    if (runs.size() != 1) return all;
    const Query pieces = fragments(tokens);
    return pieces.empty() ? all : Query(Query::OP_OR, all, pieces);
  }
  // Words beyond kMaxPhraseWords, those of phrases beyond kMaxPhrases and `others` may be anywhere.
  Query adjacent(const std::vector<Query>& words, const std::vector<Query>& others) {
    std::vector<Query> parts;
    auto rest = words.begin();
    if (words.size() >= 2 && phrases_ < kMaxPhrases) {
      ++phrases_;
      rest += static_cast<std::ptrdiff_t>(std::min(words.size(), kMaxPhraseWords));
      parts.emplace_back(Query::OP_PHRASE, words.begin(), rest,
                         static_cast<Xapian::termcount>(rest - words.begin()));
    }
    parts.insert(parts.end(), rest, words.end());
    parts.insert(parts.end(), others.begin(), others.end());
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
  TextQuery query = QueryBuilder(stemmer, database, is_local).build(clauses);
  query.runs = runs_of(clauses);
  return query;
}

Xapian::Query any_of(const std::vector<search::WeightedTerm>& terms) {
  return join(Query::OP_OR, weighted(terms));
}

std::uint32_t InterestTerms::number_of(std::string name) {
  const auto [entry, is_new] =
      numbers_.try_emplace(std::move(name), static_cast<std::uint32_t>(terms_.size()));
  if (is_new) terms_.push_back({entry->first, 0, {}});
  return entry->second;
}

const std::vector<InterestTerms::ItemTerm>& InterestTerms::item_terms(const Xapian::Database& database,
                                                                      const ItemId& item,
                                                                      Clock::time_point now) {
  static const std::vector<ItemTerm> none;
  if (const auto known = items_.find(item); known != items_.end() && now < known->second.expires_at)
    return known->second.terms;
  const auto found = database.postlist_begin(search::id_term(item));
  // Not cached: the next commit may add it.
  if (found == database.postlist_end(search::id_term(item))) return none;
  // An embargoed item: a page of items like it would reveal it.
  const std::string published = database.get_document(*found).get_value(search::kPublishedSlot);
  if (Xapian::sortable_unserialise(published) > static_cast<double>(unix_s(wall_now()))) return none;
  ItemTerms read{{}, now + kCacheTtl};
  // Title words may match anywhere in an item; tags match only tags.
  for (const char prefix : {search::kTagPrefix, search::kTitlePrefix}) {
    auto term = database.termlist_begin(*found);
    for (term.skip_to(std::string(1, prefix)); term != database.termlist_end(*found); ++term) {
      std::string name = *term;
      if (name[0] != prefix || read.terms.size() == kMaxTermsPerItem) break;
      const bool is_tag = prefix == search::kTagPrefix;
      if (!is_tag) name.erase(0, 1);
      read.terms.push_back({number_of(std::move(name)), is_tag});
    }
  }
  ItemTerms& entry = items_[item];
  entry = std::move(read);
  return entry.terms;
}

std::vector<search::WeightedTerm> InterestTerms::weigh(const Xapian::Database& database,
                                                       const std::vector<Interest>& interests, double total) {
  if (items_.size() > kMaxCachedEntries || terms_.size() > kMaxCachedEntries) {
    items_.clear();
    terms_.clear();
    numbers_.clear();
  }
  const Clock::time_point now = Clock::now();
  std::unordered_map<std::uint32_t, double> weights;
  for (std::size_t i = 0; i < std::min(interests.size(), kMaxInterests); ++i) {
    if (!(interests[i].weight > 0) || !std::isfinite(interests[i].weight)) continue;
    for (const ItemTerm& each : item_terms(database, interests[i].item, now))
      weights[each.term] += interests[i].weight * (each.is_tag ? kTagBoost : 1.0);
  }
  struct Choice {
    double worth, weight;
    std::uint32_t term;
  };
  std::vector<Choice> best;
  best.reserve(weights.size());
  for (const auto& [number, weight] : weights) {
    Term& term = terms_[number];
    if (now >= term.expires_at) {
      term.idf = inverse_frequency(database, database.get_termfreq(term.name));
      term.expires_at = now + kCacheTtl;
    }
    best.push_back({weight * term.idf, weight, number});
  }
  const std::size_t count = std::min(best.size(), kMaxTerms);
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(count), best.end(),
                    [&](const Choice& a, const Choice& b) {
                      return a.worth != b.worth ? a.worth > b.worth
                                                : terms_[a.term].name < terms_[b.term].name;
                    });
  best.resize(count);
  double worth = 0;
  for (const Choice& each : best) worth += each.worth;
  if (!(worth > 0 && std::isfinite(worth))) return {};
  std::vector<search::WeightedTerm> out;
  out.reserve(best.size());
  for (const Choice& each : best) out.push_back({terms_[each.term].name, each.weight * total / worth});
  return out;
}

}  // namespace freshet::feed
