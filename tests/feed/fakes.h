// Fakes of the feed's ports, in memory: a FeedStore that keeps the laws of the scripts, an index
// that is a list.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/feed/ports.h"
#include "tests/hot/fakes.h"

namespace freshet::test {

inline ItemId item(int number) { return ItemId::trusted("i" + std::to_string(number)); }
inline const ReaderId kReader = ReaderId::trusted("r");

class FakeSeen final : public feed::SeenView {
 public:
  explicit FakeSeen(std::set<ItemId> items) : items_(std::move(items)) {}
  std::vector<bool> contain(const std::vector<ItemId>& asked) const override {
    std::vector<bool> out;
    for (const ItemId& id : asked) out.push_back(items_.contains(id));
    return out;
  }

 private:
  std::set<ItemId> items_;
};

// The whole index in the order it is recalled.
class FakeRecall final : public feed::Recall {
 public:
  std::vector<ItemId> index;
  std::map<ItemId, double> scores;  // of others 1
  std::map<ItemId, UnixSeconds> published;
  bool away = false;
  std::vector<feed::RecallQuery> asked;

  Task<Result<feed::Recalled>> search(feed::RecallQuery query) override {
    asked.push_back(query);
    if (away) co_return fail(ErrorCode::kUnavailable, "index_away");
    feed::Recalled out;
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
  std::map<ItemId, std::string> authors;
  std::map<ItemId, std::vector<std::string>> tags;
  int reads = 0;
  bool away = false;

  Task<Result<std::vector<items::ItemCard>>> cards(const std::vector<ItemId>& ids) override {
    ++reads;
    if (away) co_return fail(ErrorCode::kUnavailable, "redis_away");
    co_return all(ids);
  }
  std::vector<items::ItemCard> all(const std::vector<ItemId>& ids) const {
    std::vector<items::ItemCard> out;
    for (const ItemId& id : ids) {
      items::ItemCard card;
      card.title = "title of " + id.str();
      if (const auto date = dates.find(id); date != dates.end()) card.visible_from = date->second;
      if (const auto author = authors.find(id); author != authors.end()) card.author = author->second;
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
  std::vector<ItemId> buffer, hot, newest_items;
  std::vector<feed::Interest> interests;
  std::vector<feed::Unacknowledged> unacknowledged;
  std::set<ItemId> seen_items, pending, withdrawn;
  std::vector<ItemId> recorded;
  std::int64_t generation = 0, sequence = 0;
  bool done = false, failing = false, full = false;
  bool beside = false;   // something else than a page was recorded
  int busy = 0;          // so often a swap must be opened again
  bool by_item = false;  // there is no view: the filter is asked, as redisbloom is
  int trips = 0;         // round trips
  std::map<std::string, feed::Page> pages;

  Task<Result<feed::Opening>> open(const feed::FeedRequest& request, bool peek) override {
    ++trips;
    if (failing) co_return away();
    feed::Opening out;
    out.replay = pages.contains(request.request);
    if (out.replay) co_return out;
    out.generation = generation;
    out.handed_out.assign(pending.begin(), pending.end());
    out.unacknowledged = unacknowledged;
    out.interests = interests;
    out.hot = hot;
    if (peek) out.buffer = buffer;
    out.seen = view();
    co_return out;
  }
  Task<Result<std::vector<bool>>> seen(const ReaderId&, const std::shared_ptr<const feed::SeenView>& view,
                                       const std::vector<ItemId>& items) override {
    if (!view) ++trips;
    auto out = view ? view->contain(items) : FakeSeen(seen_items).contain(items);
    co_return out;
  }
  Task<Result<std::vector<ItemId>>> newest(std::size_t) override {
    ++trips;
    co_return newest_items;
  }
  Task<Result<feed::Refilled>> swap(const feed::FeedRequest& request, const feed::Refill& refill) override {
    ++trips;
    if (failing) co_return away();
    if (full) co_return fail(ErrorCode::kUnavailable, "too_many_pending");
    if (busy > 0) {
      --busy;
      feed::Refilled out;
      out.again = true;
      co_return out;
    }
    if (refill.generation == generation) {
      buffer = refill.candidates;
      done = refill.exhausted;
      ++generation;
      sequence = 0;
    }
    feed::Refilled out;
    out.page = pop(request, {});
    out.details = items_.all(refill.details);
    co_return out;
  }
  Task<Result<feed::Taken>> take(const feed::FeedRequest& request) override {
    ++trips;
    if (failing) co_return away();
    feed::Taken out;
    if (const auto at = pages.find(request.request); at != pages.end()) {
      out.state = feed::Taken::State::kPage;
      out.page = at->second;
      out.page.replay = true;
      out.interests = interests;
      co_return out;
    }
    if (buffer.empty()) co_return out;
    out.state = feed::Taken::State::kPage;
    out.page = pop(request, {});
    look(out);
    out.interests = interests;
    co_return out;
  }
  Task<Result<feed::Taken>> refill(const feed::FeedRequest& request, const feed::Page& kept) override {
    ++trips;
    feed::Taken out;
    out.state = feed::Taken::State::kPage;
    out.page = pop(request, kept.items);
    look(out);
    co_return out;
  }
  Task<Result<std::vector<ItemId>>> show_again(const feed::FeedRequest&,
                                               const std::vector<ItemId>& items) override {
    co_return items;
  }
  Task<Result<feed::SeenStatus>> seen_status() override { co_return feed::SeenStatus(); }
  Task<Result<void>> record(ReaderId, feed::Impressions impressions) override {
    const std::vector<ItemId>& shown = impressions.shown;
    recorded.insert(recorded.end(), shown.begin(), shown.end());
    for (const feed::Handout& each : impressions.handouts) {
      for (const ItemId& id : each.items) {
        if (std::find(shown.begin(), shown.end(), id) != shown.end()) continue;
        withdrawn.insert(id);
        pending.erase(id);
      }
    }
    co_return Result<void>();
  }

 private:
  void look(feed::Taken& taken) {
    taken.noted = beside;
    taken.unacknowledged = unacknowledged;
    if (!beside) return;
    ++trips;
    taken.seen = view();
  }
  std::shared_ptr<const feed::SeenView> view() const {
    return by_item ? nullptr : std::make_shared<FakeSeen>(seen_items);
  }
  static tl::unexpected<Error> away() { return fail(ErrorCode::kUnavailable, "redis_away"); }
  feed::Page pop(const feed::FeedRequest& request, std::vector<ItemId> items) {
    while (items.size() < request.limit && !buffer.empty()) {
      if (pending.insert(buffer.front()).second) items.push_back(buffer.front());
      buffer.erase(buffer.begin());
    }
    feed::Page page;
    page.items = std::move(items);
    page.generation = generation;
    page.sequence = page.handout_seq = ++sequence;
    page.buffered = !buffer.empty();
    page.exhausted = buffer.empty() && done;
    if (!request.request.empty()) pages[request.request] = page;
    return page;
  }
  const FakeItems& items_;
};

}  // namespace freshet::test
