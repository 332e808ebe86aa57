// libFuzzer: any text can be indexed and becomes a query whose cost is within bounds.
#include <string>

#include "core/feed/recall_query.h"
#include "core/search/search_schema.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::require;
using Xapian::Query;

struct QuerySize {
  std::size_t terms = 0, phrases = 0;
};

void count(const Query& query, QuerySize& out) {
  const bool phrase = query.get_type() == Query::OP_PHRASE || query.get_type() == Query::OP_NEAR;
  if (query.get_type() == Query::LEAF_TERM) ++out.terms;
  if (phrase) {
    ++out.phrases;
    require(query.get_num_subqueries() <= feed::kMaxPhraseWords);
  }
  for (std::size_t i = 0; i < query.get_num_subqueries(); ++i) count(query.get_subquery(i), out);
}

// An index in which every word of `text` has other spellings.
Xapian::WritableDatabase index_of(const std::string& text, const Xapian::Stem& stemmer) {
  Xapian::WritableDatabase database("", Xapian::DB_BACKEND_INMEMORY);
  items::Item item;
  item.id = ItemId::trusted("a");
  item.title = text;
  database.add_document(search::make_document(item, stemmer));
  return database;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const Xapian::Stem stemmers[] = {Xapian::Stem(), Xapian::Stem("english")};
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  for (const Xapian::Stem& stemmer : stemmers) {
    const auto database = index_of(text, stemmer);
    const feed::TextQuery query = feed::text_query(text, stemmer, database);
    for (const feed::QueryRun& each : query.runs) require(each.terms.size() > 1);
    if (query.query.empty()) continue;
    QuerySize query_size;
    count(query.query, query_size);
    require(query_size.phrases <= feed::kMaxPhrases);
    require(query_size.terms <= feed::kMaxQueryTerms);
  }
  return 0;
}
