#include "core/recommend/ranker.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "core/hot/views.h"
#include "core/recommend/rerank_features.h"

namespace freshet::recommend {
namespace {

constexpr double kMaxPoints = 1e15;  // larger counts are bogus; below this, sums stay exact
// An item counts as a discovery only if it would not have been on this page anyway.
constexpr std::size_t kPageItems = 20;
// Readers do not scroll further, so the rest of a long list is left alone.
constexpr std::size_t kMaxDiscoveries = 16;
constexpr double kMaxExploredHours = 7 * 24;
// An item with as many impressions or page views is known.
constexpr double kMaxExploredExposures = 300;
// Below this smoothed click-through, an item is not explored any more: without a click, after 30
// impressions.
constexpr double kMinClickThrough = 0.02;
// Marks an item as part of the profile, however old the event is.
constexpr float kMinWeight = std::numeric_limits<float>::min();

// Maximum number of times the affinity candidates are selected again without archived items.
constexpr int kMaxAffinityRounds = 4;

std::uint64_t day_of(UnixSeconds now) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, now.time_since_epoch() / seconds{86400}));
}

// SplitMix64's finalizer (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

bool ranks_before(const Catalogue& catalogue, const RankedCandidate& a, const RankedCandidate& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.age_hours != b.age_hours) return a.age_hours < b.age_hours;
  return catalogue.id(a.item) < catalogue.id(b.item);
}

}  // namespace

RankingSettings RankingSettings::from(const Settings& settings) {
  RankingSettings out;
  out.cf_weight = settings.recommend.cf_weight;
  out.base_hours = settings.views.base_hours;
  out.gamma = settings.views.gamma;
  out.rerank = settings.recommend.rerank;
  if (const auto every = settings.recommend.discover_every)
    out.discover_every = static_cast<std::size_t>(*every);
  out.explore = settings.recommend.explore;
  out.max_profile_events = static_cast<std::size_t>(settings.recommend.profile_events);
  out.profile_half_life = settings.recommend.profile_half_life;
  out.weights = settings.interactions;
  return out;
}

RankingFormula RankingFormula::of(const RankingSettings& settings, const model::Model* model) {
  const model::ChosenRanking chosen = model ? model->ranking() : model::ChosenRanking{};
  const bool is_tested = chosen.method != model::RankingMethod::kUntested;
  RankingFormula out;
  out.half_life = hot::trending_index(settings.trend_half_life.value_or(chosen.trend_half_life));
  const double weight =
      chosen.method == model::RankingMethod::kTrend ? 0 : static_cast<double>(chosen.cf_weight);
  out.cf_weight = settings.cf_weight.value_or(is_tested ? weight : out.cf_weight);
  out.rerank = settings.rerank.value_or(!is_tested || chosen.method == model::RankingMethod::kReranker);
  out.discover_every = settings.discover_every.value_or(chosen.discoveries ? out.discover_every : 0);
  return out;
}

std::string RankingFormula::name(const model::Model* model, bool has_profile) const {
  using model::RankingMethod;
  const seconds trend = half_life ? kTrendingHalfLives[*half_life] : seconds{0};
  if (!has_profile || !model) return model::ranking_name({RankingMethod::kTrend, trend, 0, false});
  const bool is_learned = rerank && Reranker::from_floats(model->reranker());
  const auto method = is_learned      ? RankingMethod::kReranker
                      : cf_weight > 0 ? RankingMethod::kAffinity
                                      : RankingMethod::kTrend;
  return model::ranking_name({method, trend, static_cast<float>(cf_weight), discover_every > 1});
}

const std::vector<RankedCandidate>& Ranker::rank(const Catalogue& catalogue,
                                                 std::span<const ProfileEvent> profile, UnixSeconds now,
                                                 bool include_all, std::span<const std::uint32_t> excluded,
                                                 const ArchivePredicate& is_archived, std::uint64_t reader) {
  profile = profile.first(std::min(profile.size(), settings_.max_profile_events));
  formula_ = RankingFormula::of(settings_, catalogue.model());
  weigh_profile(catalogue, profile, now);
  excluded_.clear();
  for (const std::uint32_t each : excluded) exclude(each);
  collect_candidates(catalogue, now, include_all, is_archived);
  fill_affinities(catalogue);
  score(catalogue, profile, now);
  sort(catalogue);
  if (profile.size() >= std::max<std::size_t>(1, settings_.discovery_min_events)) insert_discoveries(now);
  insert_explorations(catalogue, now, reader);
  clear_profile(profile);
  return ranked_;
}

// Each item counts once, by its highest-weighted event.
void Ranker::weigh_profile(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                           UnixSeconds now) {
  if (profile_weights_.size() < catalogue.size()) profile_weights_.resize(catalogue.size(), 0.F);
  profile_items_.clear();
  for (const ProfileEvent& each : profile) {
    const auto weight =
        static_cast<float>(readers::interaction_weight(settings_.weights, each.kind) *
                           readers::recency_weight(each.at, now, settings_.profile_half_life));
    if (profile_weights_[each.item] == 0) profile_items_.push_back({each.item, 0});
    profile_weights_[each.item] = std::max({profile_weights_[each.item], weight, kMinWeight});
  }
  for (ProfileItem& each : profile_items_) each.weight = profile_weights_[each.item];
  if (catalogue.size() > catalogue.model_items()) {  // items newer than the model are compared by content
    for (const ProfileItem& each : profile_items_) {
      for (const model::TermWeight& term : catalogue.terms(each.item)) {
        if (term.term >= interests_.size()) interests_.resize(term.term + 1, 0.F);
        if (interests_[term.term] == 0) interest_terms_.push_back(term.term);
        interests_[term.term] += each.weight * term.weight;
      }
    }
  }
  std::erase_if(profile_items_,
                [&](const ProfileItem& each) { return each.item >= catalogue.model_items(); });
  if (catalogue.model()) affinity_.compute(*catalogue.model(), profile_items_);
}

void Ranker::clear_profile(std::span<const ProfileEvent> profile) {
  for (const ProfileEvent& each : profile) profile_weights_[each.item] = 0;
  for (const std::uint32_t each : excluded_) profile_weights_[each] = 0;
  for (const RankedCandidate& each : ranked_) is_candidate_[each.item] = 0;
  for (const std::uint32_t term : interest_terms_) interests_[term] = 0;
  interest_terms_.clear();
}

void Ranker::exclude(std::uint32_t item) {
  excluded_.push_back(item);
  profile_weights_[item] = std::max(profile_weights_[item], kMinWeight);
}

void Ranker::fill_trend(const Catalogue& catalogue, UnixSeconds now, double decay,
                        RankedCandidate& candidate) const {
  candidate.points = std::min(kMaxPoints, catalogue.points(candidate.item));
  candidate.age_hours = hot::hours_since(catalogue.published(candidate.item), now);
  candidate.power_law =
      (1 + candidate.points) / std::pow(candidate.age_hours + settings_.base_hours, settings_.gamma);
  candidate.decayed_views = catalogue.decayed_views(candidate.item, now, decay);
  candidate.trend = formula_.half_life ? static_cast<double>(candidate.decayed_views[*formula_.half_life])
                                       : candidate.power_law;
}

// Live candidates depend only on the catalogue and the second, so they are cached.
void Ranker::fill_live(const Catalogue& catalogue, UnixSeconds now) {
  if (live_generation_ == catalogue.generation() && live_at_ == now) return;
  live_.clear();
  const double decay = catalogue.recent_decay(now);
  for (const std::uint32_t item : catalogue.live_items()) {
    RankedCandidate& each = live_.emplace_back();
    each.item = item;
    each.source = catalogue.points(item) > 0 ? CandidateSource::kTrend : CandidateSource::kNewest;
    fill_trend(catalogue, now, decay, each);
  }
  live_generation_ = catalogue.generation();
  live_at_ = now;
}

void Ranker::collect_candidates(const Catalogue& catalogue, UnixSeconds now, bool include_all,
                                const ArchivePredicate& is_archived) {
  fill_live(catalogue, now);
  ranked_ = live_;
  if (is_candidate_.size() < catalogue.size()) is_candidate_.resize(catalogue.size(), 0);
  for (RankedCandidate& each : ranked_) {
    is_candidate_[each.item] = 1;
    each.in_profile = profile_weights_[each.item] != 0;
  }
  const double decay = catalogue.recent_decay(now);
  const auto add = [&](std::uint32_t item, CandidateSource source) {
    if (std::exchange(is_candidate_[item], std::uint8_t{1}) != 0) return;
    RankedCandidate& candidate = ranked_.emplace_back();
    candidate.item = item;
    candidate.source = source;
    candidate.in_profile = profile_weights_[item] != 0;
    fill_trend(catalogue, now, decay, candidate);
  };
  if (!profile_items_.empty()) {
    const auto best = top_by_affinity(catalogue, is_archived);
    for (const std::uint32_t item : best) catalogue.model()->prefetch(item);
    for (const std::uint32_t item : best) add(item, CandidateSource::kAffinity);
  }
  if (include_all || catalogue.live_items().empty()) {
    for (std::uint32_t item = 0; item < catalogue.size(); ++item)
      add(item, catalogue.points(item) > 0 ? CandidateSource::kTrend : CandidateSource::kNewest);
  }
}

std::vector<std::uint32_t> Ranker::top_by_affinity(const Catalogue& catalogue,
                                                   const ArchivePredicate& is_archived) {
  affinity_exclusions_.clear();
  for (const ProfileItem& each : profile_items_) affinity_exclusions_.push_back(each.item);
  for (const std::uint32_t each : excluded_) {
    if (each < catalogue.model_items()) affinity_exclusions_.push_back(each);
  }
  auto best = affinity_.top(settings_.affinity_candidates, affinity_exclusions_);
  for (int round = 0; is_archived && round < kMaxAffinityRounds; ++round) {
    const std::size_t excluded_before = affinity_exclusions_.size();
    for (const std::uint32_t item : best) {
      if (is_candidate_[item] != 0 || !is_archived(item)) continue;
      exclude(item);
      affinity_exclusions_.push_back(item);
    }
    if (affinity_exclusions_.size() == excluded_before) break;
    best = affinity_.top(settings_.affinity_candidates, affinity_exclusions_);
  }
  return best;
}

double Ranker::new_item_content(const Catalogue& catalogue, std::uint32_t item) const {
  double sum = 0;
  for (const model::TermWeight& term : catalogue.terms(item)) {
    if (term.term < interests_.size()) sum += static_cast<double>(interests_[term.term] * term.weight);
  }
  const auto relation = static_cast<std::size_t>(model::Relation::kContent);
  return sum * static_cast<double>(
                   catalogue.model() ? catalogue.model()->blend_weights().by_relation[relation] : 0.F);
}

void Ranker::fill_affinities(const Catalogue& catalogue) {
  double max_affinity = 0;
  for (RankedCandidate& each : ranked_) {
    if (each.item >= catalogue.model_items()) {
      each.content = new_item_content(catalogue, each.item);
    } else if (!profile_items_.empty()) {
      each.cf = static_cast<double>(affinity_.cf(each.item));
      each.content = static_cast<double>(affinity_.content(each.item));
    }
    const double sum = each.cf + each.content;
    each.affinity = std::isfinite(sum) ? std::max(0.0, sum) : 0;
    if (!each.in_profile) max_affinity = std::max(max_affinity, each.affinity);
  }
  const double scale = max_affinity > 0 ? 1 / max_affinity : 0;
  for (RankedCandidate& each : ranked_) {
    each.affinity *= scale;
    each.cf *= scale;
    each.content *= scale;
  }
}

void Ranker::score(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now) {
  for (RankedCandidate& each : ranked_) each.score = each.trend * (1 + formula_.cf_weight * each.affinity);
  if (!formula_.rerank || profile.empty() || ranked_.empty() || !catalogue.model()) return;
  const auto reranker = Reranker::from_floats(catalogue.model()->reranker());
  if (!reranker) return;
  rerank_features(catalogue, profile, ranked_, now, features_);
  reranker->logits(features_, logits_);
  const auto max_logit = static_cast<double>(*std::max_element(logits_.begin(), logits_.end()));
  constexpr double kMinLogOdds = -600;  // exp() of anything lower is 0, and zeros cannot be ordered
  for (std::size_t i = 0; i < ranked_.size(); ++i)
    ranked_[i].score = std::exp(std::max(kMinLogOdds, static_cast<double>(logits_[i]) - max_logit));
}

// Sorts by coarse score first, then by comparison within equal coarse scores.
void Ranker::sort(const Catalogue& catalogue) {
  keys_.clear();
  for (const RankedCandidate& each : ranked_) keys_.push_back(coarse_key(each.score));
  const std::span<std::uint32_t> positions = sorter_.sort_descending(keys_);
  for (auto first = positions.begin(); first != positions.end();) {
    const std::uint32_t key = keys_[*first];
    const auto end =
        std::find_if(first, positions.end(), [&](std::uint32_t position) { return keys_[position] != key; });
    if (end - first > 1) {
      std::sort(first, end, [&](std::uint32_t a, std::uint32_t b) {
        return ranks_before(catalogue, ranked_[a], ranked_[b]);
      });
    }
    first = end;
  }
  scratch_.clear();
  for (const std::uint32_t position : positions) scratch_.push_back(ranked_[position]);
  ranked_.swap(scratch_);
}

// Collects the candidates outside the profile with positive affinity, highest first. Limited to as
// many as insert_discoveries() can look at.
void Ranker::collect_discoveries() {
  discoveries_.clear();
  std::uint32_t unseen_rank = 0;
  for (std::uint32_t i = 0; i < ranked_.size(); ++i) {
    if (ranked_[i].in_profile) continue;
    if (ranked_[i].affinity > 0) discoveries_.push_back({i, unseen_rank, ranked_[i].affinity});
    ++unseen_rank;
  }
  const std::size_t limit =
      settings_.discovery_pool_size + kMaxDiscoveries * (formula_.discover_every + 1) + kPageItems;
  const auto ranks_higher = [](const DiscoveryCandidate& a, const DiscoveryCandidate& b) {
    return a.affinity != b.affinity ? a.affinity > b.affinity : a.position < b.position;
  };
  if (limit < discoveries_.size()) {
    const auto end = discoveries_.begin() + static_cast<std::ptrdiff_t>(limit);
    std::nth_element(discoveries_.begin(), end, discoveries_.end(), ranks_higher);
    discoveries_.erase(end, discoveries_.end());
  }
  std::sort(discoveries_.begin(), discoveries_.end(), ranks_higher);
}

// Returns the position of the item to move up to `unseen_rank`, or nullopt if every suitable item
// would appear soon anyway.
std::optional<std::uint32_t> Ranker::pick_discovery(std::uint32_t unseen_rank, std::size_t day) {
  pool_.clear();
  for (const DiscoveryCandidate& each : discoveries_) {
    if (each.unseen_rank >= unseen_rank + kPageItems && !ranked_[each.position].discovery)
      pool_.push_back(each.position);
    if (pool_.size() == settings_.discovery_pool_size) break;
  }
  if (pool_.empty()) return std::nullopt;
  return pool_[day % pool_.size()];
}

void Ranker::insert_discoveries(UnixSeconds now) {
  if (formula_.discover_every < 2 || settings_.discovery_pool_size == 0) return;
  collect_discoveries();
  if (discoveries_.empty()) return;
  const std::size_t day = day_of(now);
  scratch_.clear();
  std::size_t placed = 0, raised = 0;  // positions filled so far, and how many of them are discoveries
  std::uint32_t unseen_rank = 0;       // the item's rank by score alone
  for (const RankedCandidate& each : ranked_) {
    if (!each.in_profile) ++unseen_rank;
    if (each.discovery) continue;
    if (!each.in_profile && (placed + 1) % formula_.discover_every == 0 && raised < kMaxDiscoveries) {
      if (const auto chosen = pick_discovery(unseen_rank - 1, day)) {
        ranked_[*chosen].discovery = true;
        scratch_.push_back(ranked_[*chosen]);
        scratch_.back().score = each.score;
        ++raised;
        ++placed;
      }
    }
    scratch_.push_back(each);
    if (!each.in_profile) ++placed;
  }
  ranked_.swap(scratch_);
}

// Chooses by a hash of the item, the reader and the day (rendezvous hashing): a reader's choice
// stays when other items join or leave, and all new items get about as many readers.
void Ranker::collect_explorations(const Catalogue& catalogue, UnixSeconds now, std::uint64_t reader) {
  explorations_.clear();
  const std::uint64_t seed = mix(reader + day_of(now));
  std::uint32_t unseen_rank = 0;
  for (std::uint32_t i = 0; i < ranked_.size(); ++i) {
    const RankedCandidate& each = ranked_[i];
    if (each.in_profile || unseen_rank++ < kPageItems) continue;
    if (each.discovery || each.age_hours > kMaxExploredHours) continue;
    const std::optional<Exposure> exposure = catalogue.exposure(each.item);
    if (!exposure || exposure->click_through() < kMinClickThrough) continue;
    if (std::max(exposure->clicks, exposure->impressions) >= kMaxExploredExposures) continue;
    explorations_.push_back({mix(seed ^ std::hash<std::string_view>()(catalogue.id(each.item))), i});
  }
  std::ranges::sort(explorations_, std::greater(), &ExplorationCandidate::order);
}

void Ranker::insert_explorations(const Catalogue& catalogue, UnixSeconds now, std::uint64_t reader) {
  if (!(settings_.explore > 0) || reader == 0) return;
  collect_explorations(catalogue, now, reader);
  const auto every = static_cast<std::size_t>(std::max(2.0, std::round(1 / settings_.explore)));
  scratch_.clear();
  std::size_t placed = 0, raised = 0;
  for (std::uint32_t i = 0; i < ranked_.size(); ++i) {
    if (ranked_[i].exploration) continue;
    if (!ranked_[i].in_profile && (placed + 1) % every == every / 2 && raised < kMaxDiscoveries) {
      const auto chosen = std::ranges::find_if(explorations_, [&](const ExplorationCandidate& each) {
        return each.position > i && !ranked_[each.position].exploration;
      });
      if (chosen != explorations_.end()) {
        ranked_[chosen->position].exploration = true;
        scratch_.push_back(ranked_[chosen->position]);
        scratch_.back().score = ranked_[i].score;
        ++raised;
        ++placed;
      }
    }
    scratch_.push_back(ranked_[i]);
    if (!ranked_[i].in_profile) ++placed;
  }
  ranked_.swap(scratch_);
}

}  // namespace freshet::recommend
