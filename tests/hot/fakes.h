// Fakes of the storage ports: return what the test sets and count calls.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/hot/ports.h"
#include "core/items/ports.h"

namespace freshet::test {

class FakeHotStore final : public hot::HotStore {
 public:
  Error error{};  // returned by all methods while `failing`
  bool failing = false;
  bool spool_full = false;
  hot::CachedList cached;                     // the list cached in Redis
  std::vector<hot::ScoredItem> rank, newest;  // newest: by publish time
  std::vector<hot::BucketMember> members;     // for mode = current
  int empty_pages = 0;                        // of a rank, before the members
  bool tag_has_items = true;
  int bucket_reads = 0;
  int cached_reads = 0, pages = 0, stored = 0, marked_slow = 0, spooled = 0;
  std::vector<std::coroutine_handle<>> held;  // suspended callers of cached_list() while `hold`
  bool hold = false;

  Task<Result<hot::TrackResult>> track(const hot::TrackEvent&) override {
    if (failing) co_return tl::unexpected(error);
    co_return hot::TrackResult{1, 1, 0, 4};
  }
  Task<Result<hot::ViewResult>> view(const hot::ViewEvent&) override {
    if (failing) co_return tl::unexpected(error);
    co_return hot::ViewResult{};
  }
  Result<void> spool_track(const hot::TrackEvent&) override { return count_spooled(); }
  Result<void> spool_view(const hot::ViewEvent&) override { return count_spooled(); }
  Task<Result<hot::CachedList>> cached_list(const hot::ListQuery&) override {
    ++cached_reads;
    if (hold) {
      Hold wait{*this};
      co_await wait;
    }
    if (failing) co_return tl::unexpected(error);
    co_return cached;
  }
  void store_list(const hot::ListQuery&, const hot::CachedList& built) override {
    ++stored;
    cached = built;
    cached.freshness = hot::CachedList::Freshness::kFresh;
  }
  void mark_list_slow(const hot::ListQuery&) override { ++marked_slow; }
  Task<Result<hot::RankPage>> rank_page(const hot::ListQuery& query, hot::RankCursor from,
                                        std::int64_t) override {
    ++pages;
    const std::int64_t read = from.empty() ? 0 : from.front();
    if (read < empty_pages) co_return hot::RankPage{{}, hot::RankCursor{read + 1}};
    co_return hot::RankPage{query.model == &hot::kNewestItems ? newest : rank, std::nullopt};
  }
  Task<Result<bool>> has_items(const TagName&) override { co_return tag_has_items; }
  // Each member is the only one of its hour.
  Task<Result<std::vector<hot::BucketUpperBound>>> buckets() override {
    ++bucket_reads;
    std::vector<hot::BucketUpperBound> out;
    for (const hot::BucketMember& each : members) out.push_back({{hour_of(each)}, each.total});
    co_return out;
  }
  Task<Result<std::vector<hot::BucketMember>>> bucket_heads(const std::vector<hot::BucketName>& buckets,
                                                            std::int64_t offset, std::int64_t) override {
    std::vector<hot::BucketMember> out;
    for (const hot::BucketMember& each : members) {
      if (offset == 0 && std::ranges::count(buckets, hot::BucketName{hour_of(each)}) > 0) out.push_back(each);
    }
    co_return out;
  }
  Task<Result<std::vector<hot::ItemStats>>> stats(const std::vector<ItemId>& items, hot::Ranks) override {
    co_return std::vector<hot::ItemStats>(items.size());
  }
  void resume_held() {
    hold = false;
    for (auto caller : std::exchange(held, {})) caller.resume();
  }

 private:
  struct Hold {
    FakeHotStore& store;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) { store.held.push_back(caller); }
    void await_resume() const noexcept {}
  };
  static std::int64_t hour_of(const hot::BucketMember& member) {
    return member.published.time_since_epoch().count() / 3600;
  }
  Result<void> count_spooled() {
    if (spool_full) return fail(ErrorCode::kUnavailable, "spool_full");
    ++spooled;
    return {};
  }
};

class FakeItemStore : public items::ItemStore {
 public:
  std::set<std::string> hidden;  // all other items are unknown
  bool failing = false;

  Task<Result<void>> put(const items::Item&) override { co_return Result<void>(); }
  Task<Result<void>> put_many(const std::vector<items::Item>&) override { co_return Result<void>(); }
  Task<Result<void>> remove(const ItemId&) override { co_return Result<void>(); }
  Task<Result<items::Item>> get(const ItemId&) override {
    co_return fail(ErrorCode::kNotFound, "unknown_item");
  }
  Task<Result<std::vector<items::ItemCard>>> cards(const std::vector<ItemId>& ids) override {
    if (failing) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    std::vector<items::ItemCard> out(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (hidden.contains(ids[i].str())) out[i].visible_from = items::kNever;
    }
    co_return out;
  }
};

// Runs a task that never suspends, and returns its result.
template <class T>
T run_ready(Task<T> task) {
  std::optional<T> result;
  spawn([](Task<T> inner, std::optional<T>& out) -> Task<void> { out.emplace(co_await inner); }(
                                                     std::move(task), result),
        [](std::exception_ptr) {});
  return std::move(*result);
}

}  // namespace freshet::test
