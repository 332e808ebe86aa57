// From a reader's profile to ranked items: candidates = trend ∪ item–item ∪ newest, score = trend ·
// (1 + w · affinity), or the learned re-ranker. Pure: the service, `freshetctl explain` and the evaluation
// all call this. Exclusions, caps and reasons are the use-case's (core/feed/recommendations.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/settings.h"
#include "core/base/time.h"
#include "core/model/affinity.h"
#include "core/model/model.h"
#include "core/rank/interaction.h"

namespace freshet::model {

// What is known by the second of an item that is trending or new; of one that is in the model, too.
struct LiveItem {
  std::string id;
  std::string title, author;
  std::vector<std::string> tags;
  UnixSeconds published;
  double points = 0;              // undecayed, as mode=current of the hot views counts them (seed 003)
  std::vector<TermWeight> terms;  // content vector by the model's vocabulary; only when not in the model
};

// What can be ranked now: the items of the model, then the live ones that it does not have. Immutable; shared
// by all requests until the next snapshot. `model` may be null: only live items then.
class Catalogue {
 public:
  Catalogue(std::shared_ptr<const Model> model, std::vector<LiveItem> live);

  std::uint32_t size() const;
  std::uint32_t model_items() const;  // indexes below are the model's own
  std::optional<std::uint32_t> find(std::string_view id) const;
  std::string_view id(std::uint32_t item) const;
  std::string_view title(std::uint32_t item) const;  // the live one's when there is one
  std::string_view author(std::uint32_t item) const;
  std::vector<std::string_view> tags(std::uint32_t item) const;
  UnixSeconds published(std::uint32_t item) const;
  double points(std::uint32_t item) const;      // live, else the model's count
  std::span<const std::uint32_t> live() const;  // indexes of the live items
  const Model* model() const;
  std::span<const TermWeight> terms(std::uint32_t item) const;

 private:
  std::shared_ptr<const Model> model_;
  std::vector<LiveItem> live_;
  std::vector<std::uint32_t> live_index_;
  std::unordered_map<std::string_view, std::uint32_t> by_id_;  // of live_, views into it
  std::unordered_map<std::uint32_t, std::uint32_t> live_of_;   // index → position in live_
};

struct ProfileEvent {
  std::uint32_t item = 0;  // index in the catalogue
  rank::Interaction kind = rank::Interaction::kView;
  UnixSeconds at;
};

enum class Source : std::uint8_t { kTrend, kAffinity, kNewest };

// A candidate and every term of its score, for explain.
struct Ranked {
  std::uint32_t item = 0;
  double score = 0;
  double trend = 0;     // (1 + points) / (hours + base)^gamma
  double affinity = 0;  // scaled as the score uses it
  double cf = 0, content = 0;
  double points = 0, age_hours = 0;
  Source source = Source::kTrend;  // the first that named it
};

struct RankingSettings {
  double cf_weight = 2;
  double base_hours = 2, gamma = 1.5;
  bool rerank = true;
  std::size_t profile = 200;
  seconds profile_half_life{30 * 86400};
  std::size_t affinity_candidates = 300;  // best by affinity that become candidates
  InteractionSettings weights;
  static RankingSettings of(const Settings& settings);
};

class Ranking {  // scratch memory, reused; one thread
 public:
  explicit Ranking(RankingSettings settings) : settings_(std::move(settings)) {}
  // All candidates, best first (ties: newer, then by id). `profile` newest first; what is beyond
  // settings.profile is left out. An empty profile: the trend. `all`: every item of the catalogue is a
  // candidate (evaluation).
  const std::vector<Ranked>& rank(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                                  UnixSeconds now, bool all = false);
  // After rank(): the profile as it was used (the index in the profile of each entry is kept in order).
  const RankingSettings& settings() const { return settings_; }

 private:
  RankingSettings settings_;
  Affinity affinity_;
  std::vector<Ranked> ranked_;
  std::vector<ProfileItem> items_;
};

}  // namespace freshet::model
