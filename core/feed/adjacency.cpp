#include "core/feed/adjacency.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "core/search/search_schema.h"

namespace freshet::feed {
namespace {

using Positions = std::vector<Xapian::termpos>;  // ascending

Positions positions_of(const Xapian::Database& database, Xapian::docid document, const std::string& term) {
  return {database.positionlist_begin(document, term), database.positionlist_end(document, term)};
}

// Returns whether a position in `second` is `distance` after one in `first`.
bool has_neighbors(const Positions& first, const Positions& second, Xapian::termpos distance) {
  auto other = second.begin();
  for (const Xapian::termpos each : first) {
    while (other != second.end() && *other < each + distance) ++other;
    if (other == second.end()) return false;
    if (*other == each + distance) return true;
  }
  return false;
}

std::size_t neighbors(const Xapian::Database& database, Xapian::docid document, const QueryRun& run) {
  std::size_t found = 0;
  Positions before = positions_of(database, document, run.terms.front().name);
  for (std::size_t i = 1; i < run.terms.size(); ++i) {
    Positions next = positions_of(database, document, run.terms[i].name);
    if (has_neighbors(before, next, run.terms[i].position - run.terms[i - 1].position)) ++found;
    before = std::move(next);
  }
  return found;
}

}  // namespace

void rank_adjacent_higher(const Xapian::Database& database, const std::vector<QueryRun>& runs,
                          const search::SearchDeadline* deadline, std::vector<Candidate>& candidates) {
  std::size_t pairs = 0;
  for (const QueryRun& each : runs) pairs += each.terms.size() - 1;
  const auto end =
      candidates.begin() + static_cast<std::ptrdiff_t>(std::min(candidates.size(), kMaxAdjacencyItems));
  try {
    for (auto each = candidates.begin(); pairs > 0 && each != end; ++each) {
      if (deadline != nullptr) deadline->check();
      const std::string id = search::id_term(each->item);
      const auto document = database.postlist_begin(id);
      if (document == database.postlist_end(id)) continue;  // another commit has removed it
      std::size_t found = 0;
      for (const QueryRun& run : runs) found += neighbors(database, *document, run);
      each->score *= 1 + static_cast<double>(found) / static_cast<double>(pairs);
    }
  } catch (const search::SearchTimeout&) {  // the others keep their scores
  }
  std::sort(candidates.begin(), end, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.score, a.published_at, a.item) > std::tie(b.score, b.published_at, b.item);
  });
}

}  // namespace freshet::feed
