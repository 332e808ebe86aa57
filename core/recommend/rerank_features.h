// Computes the re-ranker's input features (defined in core/recommend/rerank.h). Serving and
// training share this code.
#pragma once

#include <span>
#include <vector>

#include "core/recommend/ranker.h"

namespace freshet::recommend {

// Fills `out` with the features of every candidate, in order. `candidates` must have all their
// terms; `profile` is newest first and not empty. The result is finite for any times and counts.
// O(candidates · log(candidates · profile)).
void rerank_features(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                     std::span<const RankedCandidate> candidates, UnixSeconds now,
                     std::vector<FeatureVector>& out);

}  // namespace freshet::recommend
