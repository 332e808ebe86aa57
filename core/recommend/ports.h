// The port through which recommendations get candidates with scores, from the model and from
// trending and new items. recommender.h implements it; unit tests fake it.
#pragma once

#include <cstdint>
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

// The input for a reader's candidates.
struct Profile {
  std::vector<readers::InteractionRecord> events;  // newest first
  std::vector<ItemId> dismissed;                   // dismissed items; never candidates by affinity
  // Fingerprints of items the reader interacted with long ago; treated like `dismissed`.
  readers::Fingerprints archived;
  std::uint64_t reader = 0;  // as in Ranker::rank()
};

struct SimilarItem {
  enum class Source : std::uint8_t {
    kContent,   // the model or the index
    kCovisits,  // read after the item
    kTrend
  };
  ItemId item;
  double score = 0;  // > 0; not comparable between items
  Source source = Source::kContent;
};

using SharedItems = std::shared_ptr<const std::vector<SimilarItem>>;

class Recommender {
 public:
  virtual ~Recommender() = default;
  // No round trip while this worker's copy of trending and new items is younger than twice
  // recommend.trend_refresh, because it is refreshed in the background. Otherwise waits for the
  // refresh, which takes a few round trips. Errors: Redis errors, but only if no copy was ever
  // read; after that, the last copy is used.
  virtual Task<Result<std::shared_ptr<const CandidateSet>>> find_candidates(Profile profile,
                                                                            UnixSeconds now) = 0;
  // The same from the last copy, whatever its age. Null if there is none. No round trip.
  virtual std::shared_ptr<const CandidateSet> find_stale_candidates(const Profile& profile,
                                                                    UnixSeconds now) = 0;
  // The items related to this one, best first. Returns nullopt if the model does not contain the
  // item. No round trip.
  virtual std::optional<std::vector<SimilarItem>> similar(const ItemId& item, std::size_t limit) = 0;
  // The items that readers read after this one in the last hours, most reads first; each read
  // counts half after items::kCovisitHalfLife. 1 RTT. Errors: Redis errors.
  virtual Task<Result<std::vector<SimilarItem>>> covisits(const ItemId& item, UnixSeconds now) = 0;
  // The most viewed items by trending.half_life, highest first; scores are decayed views. Never
  // null. Sorted once per second and copy of trending items. Round trips and errors: as
  // find_candidates().
  virtual Task<Result<SharedItems>> trending(UnixSeconds now) = 0;
  // Algorithm and training time of the model in use, such as "rp3beta@1790000000"; "none" without a
  // model.
  virtual std::string model_name() const = 0;
};

}  // namespace freshet::recommend
