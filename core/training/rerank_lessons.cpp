#include "core/training/rerank_lessons.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/recommend/rerank_features.h"

namespace freshet::training {
namespace {

constexpr std::size_t kLeastLessons = 300;
constexpr std::size_t kLeastDays = 7;
constexpr std::size_t kHead = 300;  // candidates of a lesson; what comes behind is never shown
constexpr std::size_t kStride =
    3;  // of them every third is kept: as good (DECISIONS.md), in a third of the time

recommend::RankingSettings by_formula(recommend::RankingSettings settings) {
  settings.rerank = false;
  settings.discover_every = 0;
  return settings;
}

// NDCG of the order that `key` gives, greatest first.
template <class Key>
double ndcg(const Choice& choice, const Key& key) {
  std::vector<std::size_t> order(choice.candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
  double found = 0, best = 0;
  std::size_t taken = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (choice.taken[order[place]] == 0) continue;
    found += 1 / std::log2(static_cast<double>(place) + 2);
    best += 1 / std::log2(static_cast<double>(taken++) + 2);
  }
  return found / best;
}

bool is_better(const recommend::Reranker& reranker, std::span<const Choice> choices) {
  double learned = 0, formula = 0;
  for (const Choice& choice : choices) {
    std::vector<float> logits;
    reranker.logits(choice.candidates, logits);
    learned += ndcg(choice, [&](std::size_t i) { return logits[i]; });
    formula += ndcg(choice, [](std::size_t i) { return -static_cast<double>(i); });
  }
  return learned > formula;
}

}  // namespace

RerankLessons::RerankLessons(const recommend::RankingSettings& settings) : ranking_(by_formula(settings)) {}

void RerankLessons::begin_day(UnixSeconds day) { days_.push_back({day, {}}); }

void RerankLessons::add(const recommend::Catalogue& catalogue, const Lesson& lesson) {
  const auto& ranked = ranking_.rank(catalogue, lesson.profile, lesson.now);
  const auto profile = lesson.profile.first(std::min(lesson.profile.size(), ranking_.settings().profile));
  recommend::rerank_features(catalogue, profile, ranked, lesson.now, features_);
  Choice choice;
  std::size_t place = 0, taken = 0;
  for (std::size_t i = 0; i < ranked.size() && place < kHead; ++i) {
    const std::uint32_t item = ranked[i].item;
    if (ranked[i].in_profile || std::binary_search(lesson.touched.begin(), lesson.touched.end(), item))
      continue;
    const bool is_taken = std::find(lesson.taken.begin(), lesson.taken.end(), item) != lesson.taken.end();
    if (++place % kStride != lesson.number % kStride && !is_taken) continue;
    choice.candidates.push_back(features_[i]);
    choice.taken.push_back(is_taken ? 1 : 0);
    taken += is_taken ? 1U : 0U;
  }
  if (taken > 0 && taken < choice.candidates.size()) days_.back().choices.push_back(std::move(choice));
}

void RerankLessons::forget_before(UnixSeconds day) {
  while (!days_.empty() && days_.front().at < day) days_.pop_front();
}

std::size_t RerankLessons::size() const {
  return std::accumulate(days_.begin(), days_.end(), std::size_t{0},
                         [](std::size_t sum, const Day& day) { return sum + day.choices.size(); });
}

std::vector<float> RerankLessons::learn() const {
  std::vector<Choice> choices;
  std::vector<std::size_t> ends;  // of each day that has lessons
  for (const Day& day : days_) {
    if (day.choices.empty()) continue;
    choices.insert(choices.end(), day.choices.begin(), day.choices.end());
    ends.push_back(choices.size());
  }
  if (choices.size() < kLeastLessons || ends.size() < kLeastDays) return {};
  const std::span all(choices);
  const std::size_t earlier = ends[ends.size() * 4 / 5 - 1];
  if (!is_better(training::fit_reranker(all.first(earlier)), all.subspan(earlier))) return {};
  return training::fit_reranker(all).to_floats();
}

}  // namespace freshet::training
