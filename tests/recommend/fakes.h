// In-memory fakes of the ports that recommendations use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/recommend/recommendations.h"
#include "tests/feed/fakes.h"

namespace freshet::test {

// A candidate with its metadata.
struct FakeCandidate {
  std::string id;
  double score = 1, points = 1;
  std::string author;
  std::vector<std::string> tags;
  UnixSeconds published;
  double trend = 0, affinity = 0;
  recommend::CandidateSource source = recommend::CandidateSource::kTrend;
  bool exploration = false;
};

// Returns the candidates as given, from a catalogue without a model.
class FakeCandidateSet final : public recommend::CandidateSet {
 public:
  explicit FakeCandidateSet(const std::vector<FakeCandidate>& candidates)
      : CandidateSet(catalogue_of(candidates), ranked(candidates), {}, {}, {}) {}
  std::map<std::uint32_t, recommend::Attribution> attributions;  // by index of the candidate

  std::vector<std::optional<recommend::Attribution>> find_attributions(
      std::span<const std::uint32_t> items) const override {
    std::vector<std::optional<recommend::Attribution>> out;
    for (const std::uint32_t each : items) {
      const auto at = attributions.find(each);
      out.push_back(at == attributions.end() ? std::nullopt : std::optional(at->second));
    }
    return out;
  }

 private:
  static std::shared_ptr<const recommend::Catalogue> catalogue_of(const std::vector<FakeCandidate>& from) {
    std::vector<recommend::LiveItem> live;
    for (const FakeCandidate& each : from)
      live.push_back({each.id, each.id, each.author, each.tags, each.published, each.points, {}});
    return std::make_shared<const recommend::Catalogue>(nullptr, std::move(live));
  }
  static std::vector<recommend::RankedCandidate> ranked(const std::vector<FakeCandidate>& from) {
    std::vector<recommend::RankedCandidate> out;
    for (const FakeCandidate& each : from) {
      recommend::RankedCandidate one;
      one.item = static_cast<std::uint32_t>(out.size());
      one.score = each.score;
      one.points = each.points;
      one.trend = each.trend;
      one.affinity = each.affinity;
      one.source = each.source;
      one.exploration = each.exploration;
      out.push_back(one);
    }
    return out;
  }
};

class FakeRecommender final : public recommend::Recommender {
 public:
  std::shared_ptr<FakeCandidateSet> next;
  bool is_unavailable = false;
  std::vector<readers::InteractionRecord> profile;  // of the last call
  std::vector<ItemId> dismissed;
  std::map<std::string, std::vector<recommend::SimilarItem>> similar_items;

  Task<Result<std::shared_ptr<const recommend::CandidateSet>>> find_candidates(recommend::Profile requested,
                                                                               UnixSeconds) override {
    profile = std::move(requested.events);
    dismissed = std::move(requested.dismissed);
    if (is_unavailable) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    co_return std::shared_ptr<const recommend::CandidateSet>(next);
  }
  std::shared_ptr<const recommend::CandidateSet> find_stale_candidates(const recommend::Profile&,
                                                                       UnixSeconds) override {
    return next;
  }
  std::optional<std::vector<recommend::SimilarItem>> similar(const ItemId& item, std::size_t) override {
    const auto at = similar_items.find(item.str());
    return at == similar_items.end() ? std::nullopt : std::optional(at->second);
  }
  std::map<std::string, std::vector<recommend::SimilarItem>> covisited;
  std::vector<recommend::SimilarItem> trend;
  Task<Result<std::vector<recommend::SimilarItem>>> covisits(const ItemId& item, UnixSeconds) override {
    if (is_unavailable) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    co_return covisited[item.str()];
  }
  Task<Result<recommend::SharedItems>> trending(UnixSeconds) override {
    if (is_unavailable) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    co_return std::make_shared<const std::vector<recommend::SimilarItem>>(trend);
  }
  std::string model_name() const override { return "fake@1"; }
};

// Only read() is implemented.
class FakeReaders final : public readers::ReaderStore {
 public:
  readers::ReaderState state;
  std::unordered_set<ItemId> dismissed;
  bool is_unavailable = false;
  int reads = 0;

  Task<Result<std::unordered_set<ItemId>>> dismissed_items(const ReaderId&) override {
    if (is_unavailable) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    co_return dismissed;
  }
  Task<Result<readers::ReaderState>> read(const ReaderId&) override {
    ++reads;
    if (is_unavailable) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    co_return state;
  }
  Task<Result<void>> record_view(const readers::View&) override { co_return unused(); }
  Task<Result<std::vector<readers::ViewedItem>>> views(const ReaderId&, readers::ViewKind) override {
    co_return tl::unexpected(unused().error());
  }
  Task<Result<void>> clear_views(const ReaderId&, readers::ViewKind, std::optional<UnixSeconds>) override {
    co_return unused();
  }
  Task<Result<void>> remove_view(const ReaderId&, readers::ViewKind, const ItemId&,
                                 std::optional<UnixSeconds>) override {
    co_return unused();
  }
  Task<Result<std::vector<Result<void>>>> record_interactions(
      const std::vector<readers::ReaderEvent>&) override {
    co_return tl::unexpected(unused().error());
  }
  Task<Result<void>> dismiss(const readers::Dismissal&) override { co_return unused(); }
  Task<Result<void>> undo_dismissal(const ReaderId&, const ItemId&, std::optional<UnixSeconds>) override {
    co_return unused();
  }
  Result<void> spool_history_view(const readers::View&) override { return unused(); }
  Result<void> spool_interaction(const readers::ReaderEvent&) override { return unused(); }
  Result<void> spool_dismissal(const readers::Dismissal&) override { return unused(); }
  Result<void> spool_undo_dismissal(const ReaderId&, const ItemId&) override { return unused(); }
  Result<void> spool_clear_views(const ReaderId&, readers::ViewKind) override { return unused(); }
  Result<void> spool_remove_view(const ReaderId&, readers::ViewKind, const ItemId&) override {
    return unused();
  }

 private:
  static Result<void> unused() { return fail(ErrorCode::kInternal, "not_faked"); }
};

}  // namespace freshet::test
