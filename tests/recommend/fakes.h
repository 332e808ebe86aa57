// Fakes of what recommendations need, in memory.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/recommend/recommendations.h"
#include "tests/feed/fakes.h"

namespace freshet::test {

// A candidate and what is known of it.
struct FakeCandidate {
  std::string id;
  double score = 1, points = 1;
  std::string author;
  std::vector<std::string> tags;
  UnixSeconds published;
  double trend = 0, affinity = 0;
  recommend::Source source = recommend::Source::kTrend;
};

class FakeSuggestions final : public recommend::Suggestions {
 public:
  explicit FakeSuggestions(std::vector<FakeCandidate> candidates) : candidates_(std::move(candidates)) {
    for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
      recommend::Suggestion one;
      one.index = i;
      one.id = candidates_[i].id;
      one.score = candidates_[i].score;
      one.points = candidates_[i].points;
      one.trend = candidates_[i].trend;
      one.affinity = candidates_[i].affinity;
      one.source = candidates_[i].source;
      all_.push_back(one);
    }
  }
  std::map<std::uint32_t, recommend::Because> speaks;  // by index

  std::span<const recommend::Suggestion> all() const override { return all_; }
  recommend::Facts facts(std::uint32_t index) const override {
    const FakeCandidate& one = candidates_.at(index);
    return {one.id, one.author, {one.tags.begin(), one.tags.end()}, one.published};
  }
  std::optional<std::uint32_t> find(const ItemId& item) const override {
    for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].id == item.view()) return i;
    }
    return std::nullopt;
  }
  std::vector<std::optional<recommend::Because>> because(
      std::span<const std::uint32_t> items) const override {
    std::vector<std::optional<recommend::Because>> out;
    for (const std::uint32_t each : items) {
      const auto at = speaks.find(each);
      out.push_back(at == speaks.end() ? std::nullopt : std::optional(at->second));
    }
    return out;
  }

 private:
  std::vector<FakeCandidate> candidates_;
  std::vector<recommend::Suggestion> all_;
};

class FakeRecommender final : public recommend::Recommender {
 public:
  std::shared_ptr<FakeSuggestions> next;
  bool away = false;
  std::vector<readers::Done> profile;  // as last given
  std::vector<ItemId> unwanted;        // likewise
  std::map<std::string, std::vector<recommend::SimilarItem>> like;

  Task<Result<std::shared_ptr<const recommend::Suggestions>>> suggest(recommend::Profile of,
                                                                      UnixSeconds) override {
    profile = std::move(of.events);
    unwanted = std::move(of.unwanted);
    if (away) co_return fail(ErrorCode::kUnavailable, "redis_away");
    co_return std::shared_ptr<const recommend::Suggestions>(next);
  }
  std::shared_ptr<const recommend::Suggestions> suggest_stale(const recommend::Profile&,
                                                              UnixSeconds) override {
    return next;
  }
  std::optional<std::vector<recommend::SimilarItem>> similar(const ItemId& item, std::size_t) override {
    const auto at = like.find(item.str());
    return at == like.end() ? std::nullopt : std::optional(at->second);
  }
  std::string model() const override { return "fake@1"; }
};

// Readers of whom only read() is wanted.
class FakeReaders final : public readers::ReaderStore {
 public:
  readers::ReaderState state;
  bool away = false;
  int reads = 0;

  Task<Result<readers::ReaderState>> read(const ReaderId&) override {
    ++reads;
    if (away) co_return fail(ErrorCode::kUnavailable, "redis_away");
    co_return state;
  }
  Task<Result<void>> viewed(const readers::View&) override { co_return unused(); }
  Task<Result<std::vector<readers::Viewed>>> views(const ReaderId&, readers::ViewKind) override {
    co_return tl::unexpected(unused().error());
  }
  Task<Result<void>> clear_views(const ReaderId&, readers::ViewKind) override { co_return unused(); }
  Task<Result<void>> merge_views(const ReaderId&, const ReaderId&) override { co_return unused(); }
  Task<Result<std::vector<Result<void>>>> interact(const std::vector<readers::ReaderEvent>&) override {
    co_return tl::unexpected(unused().error());
  }
  Task<Result<void>> dismiss(const readers::Dismissal&) override { co_return unused(); }
  Task<Result<void>> undo_dismissal(const ReaderId&, const ItemId&) override { co_return unused(); }
  void viewed_behind(const readers::View&) override {}
  Result<void> viewed_later(const readers::View&) override { return unused(); }
  Result<void> interact_later(const readers::ReaderEvent&) override { return unused(); }
  Result<void> dismiss_later(const readers::Dismissal&) override { return unused(); }
  Result<void> undo_dismissal_later(const ReaderId&, const ItemId&) override { return unused(); }
  Result<void> clear_views_later(const ReaderId&, readers::ViewKind) override { return unused(); }

 private:
  static Result<void> unused() { return fail(ErrorCode::kInternal, "not_faked"); }
};

}  // namespace freshet::test
