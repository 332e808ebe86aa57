// What recommendations need beyond a reader's state: candidates with their scores, from the model
// and from what is trending and new. recommender.h implements it; unit tests fake it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/readers/ports.h"
#include "core/recommend/candidate_set.h"

namespace freshet::recommend {

// What a reader's recommendations are made from.
struct Profile {
  std::vector<readers::InteractionRecord> events;  // newest first
  std::vector<ItemId> dismissed;       // dismissed: no candidates of affinity
  readers::Fingerprints archived;      // done long ago: likewise
};

struct SimilarItem {
  ItemId item;
  double score = 0;  // of the model's relation, > 0; not comparable between items
};

class Recommender {
 public:
  virtual ~Recommender() = default;
  // No round trip while this worker's copy of what is trending and new is younger than twice
  // recommend.trend_refresh (it is renewed in the background); else a few. Errors: Redis' own when there
  // has never been a copy; later the last one serves.
  virtual Task<Result<std::shared_ptr<const CandidateSet>>> find_candidates(Profile profile, UnixSeconds now) = 0;
  // The same from the last copy, however old; null when there is none. No round trip.
  virtual std::shared_ptr<const CandidateSet> find_stale_candidates(const Profile& profile, UnixSeconds now) = 0;
  // The items that the model relates to this one, best first; nullopt when it does not know it. No
  // round trip.
  virtual std::optional<std::vector<SimilarItem>> similar(const ItemId& item, std::size_t limit) = 0;
  // "rp3beta@1790000000": algorithm and time of the model in use; "none".
  virtual std::string model_name() const = 0;
};

}  // namespace freshet::recommend
