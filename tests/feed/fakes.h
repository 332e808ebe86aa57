// In-memory fakes of the feed's ports: a FeedStore that behaves like the scripts, and an index that
// is a list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/feed/ports.h"
#include "tests/hot/fakes.h"

namespace freshet::test {

inline ItemId item(int number) { return ItemId::trusted("i" + std::to_string(number)); }
inline const ReaderId kReader = ReaderId::trusted("r");

class FakeSeenView final : public feed::SeenView {
 public:
  explicit FakeSeenView(std::set<ItemId> items) : items_(std::move(items)) {}
  std::vector<bool> contains(const std::vector<ItemId>& items) const override {
    std::vector<bool> out;
    for (const ItemId& id : items) out.push_back(items_.contains(id));
    return out;
  }

 private:
  std::set<ItemId> items_;
};

// The whole index, in the order of recall.
class FakeRecall final : public feed::Recall {
 public:
  std::vector<ItemId> index;
  std::map<ItemId, double> scores;  // 1 unless set
  std::map<ItemId, UnixSeconds> published;
  bool unavailable = false;
  std::size_t max_size = SIZE_MAX;  // larger searches take too long
  std::vector<feed::RecallQuery> queries;

  Task<Result<feed::RecallResult>> search(feed::RecallQuery query) override {
    queries.push_back(query);
    if (unavailable) co_return fail(ErrorCode::kUnavailable, "index_unavailable");
    if (query.size > max_size) co_return fail(ErrorCode::kUnavailable, "search_timeout");
    feed::RecallResult out;
    for (std::size_t i = 0; i < std::min(query.size, index.size()); ++i)
      out.candidates.push_back(
          {index[i], scores.try_emplace(index[i], 1).first->second, published[index[i]]});
    out.exhausted = index.size() <= query.size;
    co_return out;
  }
};

class FakeItems final : public FakeItemStore {
 public:
  std::set<ItemId> hidden, unknown;
  std::map<ItemId, UnixSeconds> dates;
  std::map<ItemId, std::string> authors, author_ids;
  std::map<ItemId, std::vector<std::string>> tags;
  int reads = 0;
  bool unavailable = false;

  Task<Result<std::vector<items::ItemCard>>> cards(const std::vector<ItemId>& ids) override {
    ++reads;
    if (unavailable) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    co_return all(ids);
  }
  std::vector<items::ItemCard> all(const std::vector<ItemId>& ids) const {
    std::vector<items::ItemCard> out;
    for (const ItemId& id : ids) {
      items::ItemCard card;
      card.title = "title of " + id.str();
      if (const auto date = dates.find(id); date != dates.end()) card.visible_from = date->second;
      if (const auto author = authors.find(id); author != authors.end()) card.author = author->second;
      if (const auto author = author_ids.find(id); author != author_ids.end())
        card.author_id = author->second;
      if (const auto given = tags.find(id); given != tags.end()) card.tags = given->second;
      if (hidden.contains(id)) card.visible_from = items::kNever;
      card.known = !unknown.contains(id);
      out.push_back(card);
    }
    return out;
  }
};

class FakeFeedStore final : public feed::FeedStore {
 public:
  explicit FakeFeedStore(const FakeItems& items) : items_(items) {}
  std::vector<ItemId> buffer, hot, recent_items;
  std::vector<feed::Interest> interests;
  std::vector<feed::UnacknowledgedDelivery> unacknowledged;
  std::set<ItemId> seen_items, delivered, withdrawn;
  std::vector<ItemId> recorded;
  std::int64_t generation = 0, sequence = 0;
  bool exhausted = false, unavailable = false, full = false;
  bool external_impressions = false;  // impressions were recorded outside of feed pages
  int reloads_needed = 0;             // number of swaps that fail and must be reloaded
  bool has_no_view = false;           // the filter must be queried by item, as with redisbloom
  int trips = 0;
  std::map<std::string, feed::Page> pages;

  Task<Result<feed::FeedState>> load_state(const feed::FeedRequest& request, bool peek) override {
    ++trips;
    if (unavailable) co_return unavailable_error();
    feed::FeedState out;
    out.is_replay = pages.contains(request.idempotency_key);
    if (out.is_replay) co_return out;
    out.generation = generation;
    out.delivered_items.assign(delivered.begin(), delivered.end());
    out.unacknowledged = unacknowledged;
    out.interests = interests;
    out.hot_items = hot;
    if (peek) out.buffered_items = buffer;
    out.seen_view = view();
    co_return out;
  }
  Task<Result<std::vector<bool>>> check_seen(const ReaderId&,
                                             const std::shared_ptr<const feed::SeenView>& view,
                                             const std::vector<ItemId>& items) override {
    if (!view) ++trips;
    auto out = view ? view->contains(items) : FakeSeenView(seen_items).contains(items);
    co_return out;
  }
  Task<Result<std::vector<ItemId>>> newest_items(std::size_t) override {
    ++trips;
    co_return recent_items;
  }
  Task<Result<feed::SwapResult>> swap_buffer(const feed::FeedRequest& request,
                                             const feed::BufferSwap& swap) override {
    ++trips;
    if (unavailable) co_return unavailable_error();
    if (full) co_return fail(ErrorCode::kUnavailable, "too_many_pending");
    if (reloads_needed > 0) {
      --reloads_needed;
      feed::SwapResult out;
      out.must_reload = true;
      co_return out;
    }
    if (swap.generation == generation) {
      buffer = swap.candidates;
      exhausted = swap.exhausted;
      ++generation;
      sequence = 0;
    }
    feed::SwapResult out;
    out.page = pop(request, {});
    out.cards = items_.all(swap.card_ids);
    co_return out;
  }
  Task<Result<feed::PageResult>> next_page(const feed::FeedRequest& request) override {
    ++trips;
    if (unavailable) co_return unavailable_error();
    feed::PageResult out;
    if (const auto at = pages.find(request.idempotency_key); at != pages.end()) {
      out.status = feed::PageResult::Status::kPage;
      out.page = at->second;
      out.page.replay = true;
      out.interests = interests;
      co_return out;
    }
    if (buffer.empty()) co_return out;
    out.status = feed::PageResult::Status::kPage;
    out.page = pop(request, {});
    add_view(out);
    out.interests = interests;
    co_return out;
  }
  Task<Result<feed::PageResult>> refill_page(const feed::FeedRequest& request,
                                             const feed::Page& partial) override {
    ++trips;
    feed::PageResult out;
    out.status = feed::PageResult::Status::kPage;
    out.page = pop(request, partial.items);
    add_view(out);
    co_return out;
  }
  Task<Result<std::vector<ItemId>>> replay_page(const feed::FeedRequest&,
                                                const std::vector<ItemId>& items) override {
    co_return items;
  }
  Task<Result<feed::SeenStatus>> seen_status() override { co_return feed::SeenStatus(); }
  Task<Result<void>> record(ReaderId, feed::Impressions impressions) override {
    const std::vector<ItemId>& items = impressions.items;
    recorded.insert(recorded.end(), items.begin(), items.end());
    for (const feed::Delivery& each : impressions.deliveries) {
      for (const ItemId& id : each.items) {
        if (std::find(items.begin(), items.end(), id) != items.end()) continue;
        withdrawn.insert(id);
        delivered.erase(id);
      }
    }
    co_return Result<void>();
  }

 private:
  void add_view(feed::PageResult& result) {
    result.has_external_impressions = external_impressions;
    result.unacknowledged = unacknowledged;
    if (!external_impressions) return;
    ++trips;
    result.seen_view = view();
  }
  std::shared_ptr<const feed::SeenView> view() const {
    return has_no_view ? nullptr : std::make_shared<FakeSeenView>(seen_items);
  }
  static tl::unexpected<Error> unavailable_error() {
    return fail(ErrorCode::kUnavailable, "redis_unavailable");
  }
  feed::Page pop(const feed::FeedRequest& request, std::vector<ItemId> items) {
    while (items.size() < request.limit && !buffer.empty()) {
      if (delivered.insert(buffer.front()).second) items.push_back(buffer.front());
      buffer.erase(buffer.begin());
    }
    feed::Page page;
    page.items = std::move(items);
    page.generation = generation;
    page.sequence = page.delivery_seq = ++sequence;
    page.has_more_buffered = !buffer.empty();
    page.exhausted = buffer.empty() && exhausted;
    if (!request.idempotency_key.empty()) pages[request.idempotency_key] = page;
    return page;
  }
  const FakeItems& items_;
};

}  // namespace freshet::test
