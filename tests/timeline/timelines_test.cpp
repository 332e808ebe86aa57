#include "core/timeline/timelines.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/feed/fakes.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const Error kAway{ErrorCode::kUnavailable, "redis_unavailable", {}, {}};
const Error kUnknown{ErrorCode::kUnknownOutcome, "redis_timeout", {}, {}};
const Error kBroken{ErrorCode::kInternal, "redis_reply", {}, {}};
const auto kAlways = [] { return true; };

class FakeTimelineStore final : public timeline::TimelineStore {
 public:
  std::optional<Error> error;  // returned by read and push
  timeline::TimelinePage stored_page;
  std::set<std::string> unpushable;  // items that cannot be pushed
  std::vector<timeline::PushRequest> pushes;
  std::string unwritable_reader = "nobody";  // reader whose timeline cannot be written

  Task<Result<timeline::TimelinePage>> read(const timeline::PageQuery&) override {
    if (error) co_return tl::unexpected(*error);
    timeline::TimelinePage page = stored_page;
    page.newest_score = 9, page.oldest_score = 7;
    co_return page;
  }
  Task<Result<std::vector<bool>>> check_pushable(const std::vector<ItemId>& items) override {
    std::vector<bool> out;
    for (const ItemId& item : items) out.push_back(!unpushable.contains(item.str()));
    co_return out;
  }
  Task<Result<timeline::PushResult>> push(const timeline::PushRequest& push) override {
    if (error) co_return tl::unexpected(*error);
    pushes.push_back(push);
    if (std::ranges::count(push.readers, ReaderId::trusted(unwritable_reader)) > 0)
      co_return tl::unexpected(kBroken);
    const auto all = static_cast<std::int64_t>(push.items.size() * push.readers.size());
    co_return timeline::PushResult{all - 1, 1};
  }
  Task<Result<std::optional<std::string>>> load_reply(const std::string&, const EventId&) override {
    co_return std::optional<std::string>();
  }
  Task<Result<void>> store_reply(const std::string&, const EventId&, const std::string&) override {
    co_return Result<void>();
  }
  Task<Result<bool>> remove(const std::string&, const ReaderId&, const ItemId&) override { co_return true; }
};

class FakeFollows final : public timeline::FollowStore {
 public:
  std::vector<ItemId> published;
  Task<Result<void>> follow(const ReaderId&, const AuthorId&) override { co_return Result<void>(); }
  Task<Result<void>> unfollow(const ReaderId&, const AuthorId&) override { co_return Result<void>(); }
  Task<Result<std::vector<AuthorId>>> followed_authors(const ReaderId&) override {
    co_return std::vector<AuthorId>();
  }
  Task<Result<std::string>> publish(const AuthorId&, const std::vector<ItemId>& items) override {
    published = items;
    co_return std::string("job");
  }
};

template <class IdType>
std::vector<IdType> ids(std::initializer_list<const char*> names) {
  std::vector<IdType> out;
  for (const char* each : names) out.push_back(IdType::trusted(each));
  return out;
}

std::vector<ReaderId> readers_of(int count) {
  std::vector<ReaderId> out;
  for (int i = 0; i < count; ++i) out.push_back(ReaderId::trusted(std::to_string(i)));
  return out;
}

std::vector<std::string> describe(const std::vector<timeline::RefusedItem>& refused) {
  std::vector<std::string> out;
  for (const auto& each : refused) out.push_back(each.item.str() + " " + std::string(each.code));
  return out;
}

timeline::PageQuery page_query(timeline::Direction direction) {
  return {"discover", ReaderId::trusted("r"), direction, 42, 5};
}

}  // namespace

TEST_CASE("without Redis a page is empty and leaves the client's position unchanged", "[waterfall]") {
  for (const Error& error : {kAway, kUnknown}) {
    FakeTimelineStore store;
    store.error = error;
    for (const auto direction :
         {timeline::Direction::kFirst, timeline::Direction::kNewer, timeline::Direction::kOlder}) {
      const auto served = run_ready(timeline::read_page(store, page_query(direction), false));
      REQUIRE(served);
      const std::int64_t cursor = direction == timeline::Direction::kFirst ? 0 : 42;
      CHECK(served->degraded);
      CHECK((served->page.items.empty() && served->page.has_more && !served->page.trimmed));
      CHECK((served->page.newest_score == cursor && served->page.oldest_score == cursor &&
             served->page.newer_count == 0));
    }
  }
}

TEST_CASE("a page from Redis is not degraded, and an internal error is not treated as an outage",
          "[waterfall]") {
  FakeTimelineStore store;
  const auto served = run_ready(timeline::read_page(store, page_query(timeline::Direction::kOlder), false));
  REQUIRE(served);
  CHECK((!served->degraded && served->page.newest_score == 9 && served->page.oldest_score == 7));
  store.error = kBroken;
  const auto failed = run_ready(timeline::read_page(store, page_query(timeline::Direction::kOlder), false));
  REQUIRE_FALSE(failed);
  CHECK(error_of(failed).reason == "redis_reply");
}

TEST_CASE("each item of a page has a reason, in the follow channel the followed author", "[waterfall]") {
  const auto card = [](const char* author, const char* tag, seconds age) {
    items::ItemCard out;
    out.known = true;
    out.title = author;
    out.author = author;
    out.tags.emplace_back(tag);
    out.visible_from = wall_now() - age;
    return std::make_shared<const items::ItemCard>(out);
  };
  constexpr seconds kOld{30 * 86400};
  FakeTimelineStore store;
  store.stored_page.items = {{ItemId::trusted("a"), 9, card("ann", "sea", kOld), {}},
                             {ItemId::trusted("b"), 8, card("bob", "garden", seconds{60}), {}},
                             {ItemId::trusted("c"), 7, card("", "war", kOld), {}}};
  store.stored_page.interests = {{ItemId::trusted("x"), 1, readers::Interaction::kLike}};
  store.stored_page.interest_cards = {card("ann", "garden", kOld)};
  const auto texts = [&](bool follows) {
    const auto served =
        run_ready(timeline::read_page(store, page_query(timeline::Direction::kOlder), follows));
    REQUIRE(served);
    std::vector<std::string> out;
    for (const auto& each : served->page.items) out.push_back(readers::reason_text(each.reason));
    return out;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts(false) == Texts{"by ann, whose work you liked", "new in garden", "more to read"});
  CHECK(texts(true) ==
        Texts{"by ann, whom you follow", "by bob, whom you follow", "from someone you follow"});
}

TEST_CASE("items that cannot be pushed are reported and the others are pushed in order", "[waterfall]") {
  FakeTimelineStore store;
  FakeItems items;
  store.unpushable = {"b", "d"};
  items.hidden = {ItemId::trusted("b")};
  items.unknown = {ItemId::trusted("d")};
  const timeline::PushRequest push{"discover", ids<ItemId>({"a", "b", "c", "d"}), readers_of(2)};
  const auto outcome = run_ready(timeline::push_items(store, items, push, kAlways));
  REQUIRE(outcome);
  CHECK(describe(outcome->refused) == std::vector<std::string>{"b hidden_item", "d unknown_item"});
  REQUIRE(store.pushes.size() == 1);
  CHECK(store.pushes[0].items == ids<ItemId>({"a", "c"}));
  CHECK((outcome->counts.pushed == 3 && outcome->counts.duplicates == 1));
}

TEST_CASE("if no item can be pushed nothing is written and each item is reported", "[waterfall]") {
  FakeTimelineStore store;
  FakeItems items;
  FakeFollows follows;
  store.unpushable = {"a", "b"};
  const auto some = ids<ItemId>({"a", "b"});
  const auto outcome =
      run_ready(timeline::push_items(store, items, {"discover", some, readers_of(2)}, kAlways));
  REQUIRE(outcome);
  CHECK((outcome->refused.size() == 2 && outcome->counts.pushed == 0 && store.pushes.empty()));
  const auto published =
      run_ready(timeline::publish_items(store, items, follows, AuthorId::trusted("x"), some));
  REQUIRE(published);
  CHECK((published->job.empty() && published->refused.size() == 2 && follows.published.empty()));
}

TEST_CASE("many readers are served five hundred at a time, each once", "[waterfall]") {
  FakeTimelineStore store;
  FakeItems items;
  const auto all = readers_of(1201);
  const auto outcome =
      run_ready(timeline::push_items(store, items, {"discover", ids<ItemId>({"a"}), all}, kAlways));
  REQUIRE(outcome);
  std::vector<ReaderId> served;
  for (const timeline::PushRequest& push : store.pushes) {
    CHECK(push.readers.size() <= 500);
    served.insert(served.end(), push.readers.begin(), push.readers.end());
  }
  CHECK(store.pushes.size() == 3);
  CHECK(served == all);
  CHECK((outcome->counts.pushed == 1201 - 3 && outcome->counts.duplicates == 3));
  CHECK(items.reads == 0);
}

TEST_CASE("many items go to fewer readers at a time, so that other requests are not held up", "[waterfall]") {
  FakeTimelineStore store;
  FakeItems items;
  std::vector<ItemId> hundred;
  for (int i = 0; i < 100; ++i) hundred.push_back(ItemId::trusted("i" + std::to_string(i)));
  const auto all = readers_of(101);
  REQUIRE(run_ready(timeline::push_items(store, items, {"discover", hundred, all}, kAlways)));
  std::vector<ReaderId> served;
  for (const timeline::PushRequest& push : store.pushes) {
    CHECK(push.readers.size() * push.items.size() <= 500);
    served.insert(served.end(), push.readers.begin(), push.readers.end());
  }
  CHECK(served == all);
}

TEST_CASE("a push that runs out of time ends between two round trips with an error", "[waterfall]") {
  FakeTimelineStore store;
  FakeItems items;
  int turns = 0;
  const auto once = [&turns] { return turns++ < 1; };
  const auto outcome =
      run_ready(timeline::push_items(store, items, {"discover", ids<ItemId>({"a"}), readers_of(1000)}, once));
  REQUIRE_FALSE(outcome);
  CHECK((error_of(outcome).code == ErrorCode::kUnavailable && error_of(outcome).reason == "budget"));
  CHECK(store.pushes.size() == 1);
}

TEST_CASE("a timeline that cannot be written does not affect others, and its error is returned",
          "[waterfall]") {
  FakeTimelineStore store;
  FakeItems items;
  store.unwritable_reader = "7";
  const timeline::PushRequest push{"discover", ids<ItemId>({"a"}), readers_of(1500)};
  const auto outcome = run_ready(timeline::push_items(store, items, push, kAlways));
  REQUIRE_FALSE(outcome);
  CHECK(error_of(outcome).reason == "redis_reply");
  CHECK(store.pushes.size() == 3);
  store.error = kAway;
  const auto away = run_ready(timeline::push_items(store, items, push, kAlways));
  REQUIRE_FALSE(away);
  CHECK((error_of(away).reason == "redis_unavailable" && store.pushes.size() == 3));
}

TEST_CASE("a publish leaves out items that cannot be pushed", "[waterfall]") {
  FakeTimelineStore store;
  FakeItems items;
  FakeFollows follows;
  store.unpushable = {"a"};
  const auto published = run_ready(
      timeline::publish_items(store, items, follows, AuthorId::trusted("x"), ids<ItemId>({"a", "b"})));
  REQUIRE(published);
  CHECK(published->job == "job");
  CHECK(follows.published == ids<ItemId>({"b"}));
  CHECK(describe(published->refused) == std::vector<std::string>{"a hidden_item"});
}
