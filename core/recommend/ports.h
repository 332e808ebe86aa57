// What recommendations (seed 000) need beyond a reader's state: candidates with their scores, from the model
// and from what is trending and new. recommender.h implements it; unit tests fake it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/readers/ports.h"
#include "core/recommend/ranking.h"

namespace freshet::recommend {

// A candidate, and every term of its score.
struct Suggestion {
  std::uint32_t index = 0;  // for facts() and because()
  std::string_view id;
  double score = 0;     // what it is ordered by; ≥ 0
  double trend = 0;     // (1 + points) / (hours + base)^gamma
  double affinity = 0;  // what the reader's profile adds, as the score uses it
  double cf = 0, content = 0;
  double points = 0, age_hours = 0;
  Source source = Source::kTrend;
  bool discovery = false;  // raised to a place for what the reader would not have met otherwise
};

struct Facts {
  std::string_view title, author;
  std::vector<std::string_view> tags;
  UnixSeconds published;
};

// The event of a reader that speaks most for an item.
struct Because {
  ItemId item;
  readers::Interaction kind = readers::Interaction::kView;
  double share = 0;  // of the item's affinity, 0..1
};

// What was suggested to one reader at one moment; what it gives out lives as long as it does.
class Suggestions {
 public:
  virtual ~Suggestions() = default;
  virtual std::span<const Suggestion> all() const = 0;  // best first, each item once
  virtual Facts facts(std::uint32_t index) const = 0;
  virtual std::optional<std::uint32_t> find(const ItemId& item) const = 0;  // also of what is no candidate
  // In order; nullopt where no event speaks for the item. O(profile × neighbours) for all together.
  virtual std::vector<std::optional<Because>> because(std::span<const std::uint32_t> items) const = 0;
};

// What a reader's recommendations are made from.
struct Profile {
  std::vector<readers::Done> events;  // newest first
  std::vector<ItemId> unwanted;       // dismissed: affinity names no candidates that will not be shown, …
  readers::Fingerprints earlier;      // … nor any of these
};

struct SimilarItem {
  ItemId item;
  double score = 0;  // of the model's relation, > 0; not comparable between items
};

class Recommender {
 public:
  virtual ~Recommender() = default;
  // No round trip while this worker's copy of what is trending and new is younger
  // than twice recommend.snapshot (it is renewed in the background); else a few. Errors: Redis' own, when
  // there has never been a copy; later the last one serves.
  virtual Task<Result<std::shared_ptr<const Suggestions>>> suggest(Profile profile, UnixSeconds now) = 0;
  // The same from the last copy, however old; null when there is none. No round trip.
  virtual std::shared_ptr<const Suggestions> suggest_stale(const Profile& profile, UnixSeconds now) = 0;
  // The items that the model relates to this one, best first; nullopt when it does not know it. No round
  // trip.
  virtual std::optional<std::vector<SimilarItem>> similar(const ItemId& item, std::size_t most) = 0;
  // "rp3beta@1790000000": algorithm and time of the model in use; "none".
  virtual std::string model() const = 0;
};

}  // namespace freshet::recommend
