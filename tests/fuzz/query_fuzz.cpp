// libFuzzer: any text becomes a query whose cost is within bounds.
#include <string>

#include "core/feed/recall_query.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::require;
using Xapian::Query;

struct QuerySize {
  std::size_t words = 0, phrases = 0;
};

void count(const Query& query, QuerySize& out) {
  const bool phrase = query.get_type() == Query::OP_PHRASE || query.get_type() == Query::OP_NEAR;
  if (query.get_type() == Query::LEAF_TERM) ++out.words;
  if (phrase) {
    ++out.phrases;
    require(query.get_num_subqueries() <= feed::kMaxPhraseWords);
  }
  for (std::size_t i = 0; i < query.get_num_subqueries(); ++i) count(query.get_subquery(i), out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const Xapian::Stem stemmers[] = {Xapian::Stem(), Xapian::Stem("english")};
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  for (const Xapian::Stem& stemmer : stemmers) {
    const auto query = feed::text_query(text, stemmer);
    if (query.empty()) continue;
    QuerySize query_size;
    count(query, query_size);
    require(query_size.phrases <= feed::kMaxPhrases);
    // A character of a script without spaces counts as half a word.
    require(query_size.words <= 2 * feed::kMaxQueryWords);
  }
  return 0;
}
