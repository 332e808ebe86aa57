#include "core/recommend/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/hot/views.h"
#include "core/recommend/rerank_features.h"

namespace freshet::recommend {
namespace {

constexpr double kMostPoints = 1e15;  // beyond this a counter is broken; sums stay exact below
// A discovery is one only when the list would not have shown it on this page anyway.
constexpr std::size_t kPage = 20;
// Nobody looks further; the rest of a long list stays as it is.
constexpr std::size_t kMostDiscoveries = 16;
constexpr float kLeastWeight = std::numeric_limits<float>::min();  // in the profile, however long ago

// Affinity names its candidates anew so often at most, without what the reader did long ago.
constexpr int kRounds = 4;

bool before(const Catalogue& catalogue, const Ranked& a, const Ranked& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.age_hours != b.age_hours) return a.age_hours < b.age_hours;
  return catalogue.id(a.item) < catalogue.id(b.item);
}

}  // namespace

RankingSettings RankingSettings::of(const Settings& settings) {
  RankingSettings out;
  out.cf_weight = settings.recommend.cf_weight;
  out.base_hours = settings.views.base_hours;
  out.gamma = settings.views.gamma;
  out.rerank = settings.recommend.rerank;
  out.discover_every = static_cast<std::size_t>(settings.recommend.discover_every);
  out.profile = static_cast<std::size_t>(settings.recommend.profile_events);
  out.profile_half_life = settings.recommend.profile_half_life;
  out.weights = settings.interactions;
  return out;
}

const std::vector<Ranked>& Ranking::rank(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                                         UnixSeconds now, bool all, std::span<const std::uint32_t> unwanted,
                                         const DoneBefore& done_before) {
  profile = profile.first(std::min(profile.size(), settings_.profile));
  weigh_profile(catalogue, profile, now);
  unwanted_.clear();
  for (const std::uint32_t each : unwanted) pass_over(each);
  name_candidates(catalogue, now, all, done_before);
  fill_terms(catalogue);
  score(catalogue, profile, now);
  sort(catalogue);
  if (profile.size() >= std::max<std::size_t>(1, settings_.discover_from)) discover(now);
  forget_profile(profile);
  return ranked_;
}

// An item counts once, by the event that says most.
void Ranking::weigh_profile(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                            UnixSeconds now) {
  if (weight_.size() < catalogue.size()) weight_.resize(catalogue.size(), 0.F);
  items_.clear();
  for (const ProfileEvent& each : profile) {
    const auto weight = static_cast<float>(readers::interaction_weight(settings_.weights, each.kind) *
                                           readers::recency_weight(each.at, now, settings_.profile_half_life));
    if (weight_[each.item] == 0) items_.push_back({each.item, 0});
    weight_[each.item] = std::max({weight_[each.item], weight, kLeastWeight});
  }
  for (ProfileItem& each : items_) each.weight = weight_[each.item];
  if (catalogue.size() > catalogue.model_items()) {  // items newer than the model are compared by content
    for (const ProfileItem& each : items_) {
      for (const model::TermWeight& term : catalogue.terms(each.item)) {
        if (term.term >= interests_.size()) interests_.resize(term.term + 1, 0.F);
        if (interests_[term.term] == 0) terms_.push_back(term.term);
        interests_[term.term] += each.weight * term.weight;
      }
    }
  }
  std::erase_if(items_, [&](const ProfileItem& each) { return each.item >= catalogue.model_items(); });
  if (catalogue.model()) affinity_.compute(*catalogue.model(), items_);
}

void Ranking::forget_profile(std::span<const ProfileEvent> profile) {
  for (const ProfileEvent& each : profile) weight_[each.item] = 0;
  for (const std::uint32_t each : unwanted_) weight_[each] = 0;
  for (const Ranked& each : ranked_) named_[each.item] = 0;
  for (const std::uint32_t term : terms_) interests_[term] = 0;
  terms_.clear();
}

void Ranking::pass_over(std::uint32_t item) {
  unwanted_.push_back(item);
  weight_[item] = std::max(weight_[item], kLeastWeight);
}

void Ranking::describe(const Catalogue& catalogue, UnixSeconds now, Ranked& candidate) const {
  candidate.points = std::min(kMostPoints, catalogue.points(candidate.item));
  candidate.age_hours = hot::hours_since(catalogue.published(candidate.item), now);
  candidate.trend =
      (1 + candidate.points) / std::pow(candidate.age_hours + settings_.base_hours, settings_.gamma);
}

// What is live is the same for all readers of a second.
void Ranking::describe_live(const Catalogue& catalogue, UnixSeconds now) {
  if (live_of_ == catalogue.number() && live_at_ == now) return;
  live_.clear();
  for (const std::uint32_t item : catalogue.live()) {
    Ranked& each = live_.emplace_back();
    each.item = item;
    each.source = catalogue.points(item) > 0 ? Source::kTrend : Source::kNewest;
    describe(catalogue, now, each);
  }
  live_of_ = catalogue.number();
  live_at_ = now;
}

void Ranking::name_candidates(const Catalogue& catalogue, UnixSeconds now, bool all,
                              const DoneBefore& done_before) {
  describe_live(catalogue, now);
  ranked_ = live_;
  if (named_.size() < catalogue.size()) named_.resize(catalogue.size(), 0);
  for (Ranked& each : ranked_) {
    named_[each.item] = 1;
    each.in_profile = weight_[each.item] != 0;
  }
  const auto name = [&](std::uint32_t item, Source source) {
    if (std::exchange(named_[item], std::uint8_t{1}) != 0) return;
    Ranked& candidate = ranked_.emplace_back();
    candidate.item = item;
    candidate.source = source;
    candidate.in_profile = weight_[item] != 0;
    describe(catalogue, now, candidate);
  };
  if (!items_.empty()) {
    const auto best = best_by_affinity(catalogue, done_before);
    for (const std::uint32_t item : best) catalogue.model()->fetch(item);
    for (const std::uint32_t item : best) name(item, Source::kAffinity);
  }
  if (all || catalogue.live().empty()) {
    for (std::uint32_t item = 0; item < catalogue.size(); ++item)
      name(item, catalogue.points(item) > 0 ? Source::kTrend : Source::kNewest);
  }
}

std::vector<std::uint32_t> Ranking::best_by_affinity(const Catalogue& catalogue,
                                                     const DoneBefore& done_before) {
  known_.clear();
  for (const ProfileItem& each : items_) known_.push_back(each.item);
  for (const std::uint32_t each : unwanted_) {
    if (each < catalogue.model_items()) known_.push_back(each);
  }
  auto best = affinity_.top(settings_.affinity_candidates, known_);
  for (int round = 0; done_before && round < kRounds; ++round) {
    const std::size_t known = known_.size();
    for (const std::uint32_t item : best) {
      if (named_[item] != 0 || !done_before(item)) continue;
      pass_over(item);
      known_.push_back(item);
    }
    if (known_.size() == known) break;
    best = affinity_.top(settings_.affinity_candidates, known_);
  }
  return best;
}

double Ranking::content_of_new(const Catalogue& catalogue, std::uint32_t item) const {
  double sum = 0;
  for (const model::TermWeight& term : catalogue.terms(item)) {
    if (term.term < interests_.size()) sum += static_cast<double>(interests_[term.term] * term.weight);
  }
  const auto part = static_cast<std::size_t>(model::Part::kContent);
  return sum * static_cast<double>(catalogue.model() ? catalogue.model()->mix().part[part] : 0.F);
}

void Ranking::fill_terms(const Catalogue& catalogue) {
  double greatest = 0;
  for (Ranked& each : ranked_) {
    if (each.item >= catalogue.model_items()) {
      each.content = content_of_new(catalogue, each.item);
    } else if (!items_.empty()) {
      each.cf = static_cast<double>(affinity_.cf(each.item));
      each.content = static_cast<double>(affinity_.content(each.item));
    }
    const double sum = each.cf + each.content;
    each.affinity = std::isfinite(sum) ? std::max(0.0, sum) : 0;
    if (!each.in_profile) greatest = std::max(greatest, each.affinity);
  }
  const double scale = greatest > 0 ? 1 / greatest : 0;
  for (Ranked& each : ranked_) {
    each.affinity *= scale;
    each.cf *= scale;
    each.content *= scale;
  }
}

void Ranking::score(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now) {
  for (Ranked& each : ranked_) each.score = each.trend * (1 + settings_.cf_weight * each.affinity);
  if (!settings_.rerank || profile.empty() || ranked_.empty() || !catalogue.model()) return;
  const auto reranker = Reranker::of(catalogue.model()->reranker());
  if (!reranker) return;
  rerank_features(catalogue, profile, ranked_, now, features_);
  reranker->logits(features_, logits_);
  const auto most = static_cast<double>(*std::max_element(logits_.begin(), logits_.end()));
  constexpr double kLeastLogOdds = -600;  // exp() of less is 0, and what is 0 has no order
  for (std::size_t i = 0; i < ranked_.size(); ++i)
    ranked_[i].score = std::exp(std::max(kLeastLogOdds, static_cast<double>(logits_[i]) - most));
}

// By coarse scores first; those of one coarse score by comparison.
void Ranking::sort(const Catalogue& catalogue) {
  keys_.clear();
  for (const Ranked& each : ranked_) keys_.push_back(coarse_key(each.score));
  const std::span<std::uint32_t> places = order_.descending(keys_);
  for (auto first = places.begin(); first != places.end();) {
    const std::uint32_t key = keys_[*first];
    const auto end =
        std::find_if(first, places.end(), [&](std::uint32_t place) { return keys_[place] != key; });
    if (end - first > 1) {
      std::sort(first, end,
                [&](std::uint32_t a, std::uint32_t b) { return before(catalogue, ranked_[a], ranked_[b]); });
    }
    first = end;
  }
  other_.clear();
  for (const std::uint32_t place : places) other_.push_back(ranked_[place]);
  ranked_.swap(other_);
}

// The candidates outside the profile with some affinity, greatest first: as many as could be
// looked at.
void Ranking::find_discoveries() {
  discoveries_.clear();
  std::uint32_t open = 0;
  for (std::uint32_t i = 0; i < ranked_.size(); ++i) {
    if (ranked_[i].in_profile) continue;
    if (ranked_[i].affinity > 0) discoveries_.push_back({i, open, ranked_[i].affinity});
    ++open;
  }
  const std::size_t most =
      settings_.discover_among + kMostDiscoveries * (settings_.discover_every + 1) + kPage;
  const auto greater = [](const Place& a, const Place& b) {
    return a.affinity != b.affinity ? a.affinity > b.affinity : a.position < b.position;
  };
  if (most < discoveries_.size()) {
    const auto end = discoveries_.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(discoveries_.begin(), end, discoveries_.end(), greater);
    discoveries_.erase(end, discoveries_.end());
  }
  std::sort(discoveries_.begin(), discoveries_.end(), greater);
}

// The position of what is to be raised to the place `open`; nothing when all would come
// soon anyway.
std::optional<std::uint32_t> Ranking::discovery_for(std::uint32_t open, std::size_t day) {
  pool_.clear();
  for (const Place& each : discoveries_) {
    if (each.open >= open + kPage && !ranked_[each.position].discovery) pool_.push_back(each.position);
    if (pool_.size() == settings_.discover_among) break;
  }
  if (pool_.empty()) return std::nullopt;
  return pool_[day % pool_.size()];
}

void Ranking::discover(UnixSeconds now) {
  if (settings_.discover_every < 2 || settings_.discover_among == 0) return;
  find_discoveries();
  if (discoveries_.empty()) return;
  const auto day =
      static_cast<std::size_t>(std::max<std::int64_t>(0, now.time_since_epoch() / seconds{86400}));
  other_.clear();
  std::size_t shown = 0, raised = 0;  // places so far; those of them for discoveries
  std::uint32_t open = 0;             // the place of each by its score alone
  for (const Ranked& each : ranked_) {
    if (!each.in_profile) ++open;
    if (each.discovery) continue;
    if (!each.in_profile && (shown + 1) % settings_.discover_every == 0 && raised < kMostDiscoveries) {
      if (const auto chosen = discovery_for(open - 1, day)) {
        ranked_[*chosen].discovery = true;
        other_.push_back(ranked_[*chosen]);
        other_.back().score = each.score;
        ++raised;
        ++shown;
      }
    }
    other_.push_back(each);
    if (!each.in_profile) ++shown;
  }
  ranked_.swap(other_);
}

}  // namespace freshet::recommend
