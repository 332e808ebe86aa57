// Ranks items that have the words of a query as they stand in it above those that have them
// scattered.
//
// A run without spaces is searched for by pairs of characters or by words, each an alternative. A
// phrase operator would cost as much as the index is large; this reads positions in the best items
// only.
#pragma once

#include <xapian.h>

#include <vector>

#include "core/feed/ports.h"
#include "core/feed/recall_query.h"
#include "core/search/search_deadline.h"

namespace freshet::feed {

inline constexpr std::size_t kMaxAdjacencyItems = 200;

// Multiplies the scores of the first kMaxAdjacencyItems of `candidates` by 1 + the share of the
// runs' neighboring terms that are neighbors in the item as well, and sorts these. REQUIRES:
// candidates are ordered by score. Stops at the deadline, which may be null. Throws Xapian::Error.
void rank_adjacent_higher(const Xapian::Database& database, const std::vector<QueryRun>& runs,
                          const search::SearchDeadline* deadline, std::vector<Candidate>& candidates);

}  // namespace freshet::feed
