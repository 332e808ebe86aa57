// Ranks items that contain the query's words next to each other, as in the query, above items in
// which they are scattered.
//
// A run without spaces is searched for by pairs of characters or by words, each an alternative. The
// cost of a phrase operator grows with the index; this reads positions in the best items only.
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
