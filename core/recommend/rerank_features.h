// The numbers that the re-ranker judges candidates by (core/recommend/rerank.h says what each is).
// One code for serving and for learning.
#pragma once

#include <span>
#include <vector>

#include "core/recommend/ranker.h"

namespace freshet::recommend {

// Of every candidate, in the order given. `candidates` with all their terms, `profile` newest first
// and not empty. Finite whatever the times and counts. O(candidates · log(candidates · profile)).
void rerank_features(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                     std::span<const RankedCandidate> candidates, UnixSeconds now, std::vector<FeatureVector>& out);

}  // namespace freshet::recommend
