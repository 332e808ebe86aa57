// Model test of the paging invariant of timelines: a client that stores the highest and the lowest
// score it has, requests items newer than the former or older than the latter, and updates only the
// one it used, sees every item that stays in its timeline exactly once and in order. Concurrent
// operations and the order of all round trips are drawn from a seed.
//
// FRESHET_INVARIANT_SEED: run only this seed. FRESHET_INVARIANT_RUNS: number of seeds to run.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "core/items/item_store.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "core/timeline/follow_store.h"
#include "core/timeline/timeline_store.h"
#include "tests/support/redis_server.h"
#include "tests/support/repeat_count.h"
#include "tests/support/stepped_redis.h"

using namespace freshet;
using test::SteppedRedis;
using timeline::Direction;

namespace {

constexpr std::string_view kChannel = "follow";
constexpr std::size_t kReaders = 2, kClients = 2, kAuthors = 2, kItems = 30;

using Entries = std::map<std::int64_t, std::string>;  // score → item

struct Timeline {
  ReaderId reader;
  Entries entries, trimmed;
  std::map<std::string, int> pulled;  // number of times an item joined while a page was read
  std::int64_t highest_ever = 0;
  // The highest trimmed score is between these two: items that join and are trimmed in one step are
  // not observed, and deleted items may have left either way.
  std::int64_t cut_off() const { return trimmed.empty() ? 0 : trimmed.rbegin()->first; }
  std::int64_t maybe_cut_off = 0;
};

struct Client {
  Timeline* timeline = nullptr;
  bool opened = false, reading_newer = false, reading_older = false;
  std::int64_t newest = 0, oldest = 0;
  Entries seen;
  bool saw_trimmed = false;
};

struct InvariantViolation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// REQUIRE for millions of checks.
void ensure(bool holds, const char* invariant, const std::string& item = {}, std::int64_t score = 0) {
  if (!holds) throw InvariantViolation(invariant + (": " + item) + " at " + std::to_string(score));
}

enum class Deployment {
  kStandalone,
  kCluster,                // nodes run the commands of a pipeline in any order between barriers
  kClusterWithoutBarriers  // barriers are ignored as well
};

class Explorer {
 public:
  Explorer(redis::BlockingRedis& inner, unsigned seed, Deployment on)
      : random_(seed),
        order_{random_, on != Deployment::kClusterWithoutBarriers},
        shared_order_(on == Deployment::kStandalone ? nullptr : &order_),
        inner_(inner),
        keys_("invariant:" + std::to_string(seed) + ":"),
        settings_(draw_settings()) {
    for (std::size_t i = 0; i < kReaders; ++i) timelines_[i].reader = ReaderId::trusted(name_of_reader(i));
    for (std::size_t i = 0; i < clients_.size(); ++i) clients_[i].timeline = &timelines_[i % kReaders];
  }

  // Throws InvariantViolation.
  void run(int operations) {
    try {
      run_on(operations);
    } catch (const InvariantViolation&) {
      // Coroutines waiting for their next step can only end by running it.
      while (turns_.run_step()) {
      }
      throw;
    }
  }

 private:
  void run_on(int operations) {
    for (int i = 0; i < operations; ++i) {
      operate();
      for (auto steps = draw(4); steps > 0; --steps) step();
    }
    finish();
    for (Client& client : clients_) {
      drain(client);
      check_nothing_lost(client);
    }
    check_graph();
  }
  static std::string name_of_reader(std::size_t i) { return "r" + std::to_string(i); }
  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  bool chance(unsigned percent) { return draw(100) < percent; }
  std::string any_item() { return "i" + std::to_string(draw(kItems)); }
  static std::string name_of_author(std::size_t i) { return "a" + std::to_string(i); }
  AuthorId any_author() { return AuthorId::trusted(name_of_author(draw(kAuthors))); }
  Timeline& any_timeline() { return timelines_[draw(kReaders)]; }

  Settings draw_settings() {
    Settings out;
    out.timeline.max_items = static_cast<int>(3 + draw(10));
    out.timeline.backfill = static_cast<int>(draw(6));
    out.fanout.max_push_followers = chance(80) ? 0 : 100;  // all authors with followers are pulled, or none
    out.fanout.outbox_size = 8;
    return out;
  }

  void operate() {
    const auto what = draw(100);
    // Violations without barriers need follows and unfollows at the same time.
    if (!order_.keeps_barriers && what % 3 == 0) return start(chance(60) ? follow() : unfollow());
    if (what < 45) return ask(clients_[draw(static_cast<unsigned>(clients_.size()))]);
    if (what < 65) return start(push(1 + draw(4)));
    if (what < 75) return start(publish());
    if (what < 80) return start(follow());
    if (what < 82) return start(unfollow());
    if (what < 88) return start(remove());
    toggle_hidden(any_item());
  }
  void start(Task<void> task) {
    ++in_flight_;
    spawn(std::move(task), [this](std::exception_ptr error) {
      --in_flight_;
      if (error && !failed_) failed_ = error;
    });
  }
  bool step() {
    const bool stepped = turns_.run_step();
    if (failed_) std::rethrow_exception(failed_);
    return stepped;
  }
  void finish() {
    while (step()) {
    }
    REQUIRE(in_flight_ == 0);
  }

  // --- clients

  void ask(Client& client) {
    if (!client.opened) {
      if (!client.reading_newer && !client.reading_older)
        start(read_page(client, Direction::kFirst, 1 + draw(5)));
      return;
    }
    const Direction direction = chance(50) ? Direction::kNewer : Direction::kOlder;
    if (!(direction == Direction::kNewer ? client.reading_newer : client.reading_older))
      start(read_page(client, direction, 1 + draw(5)));
  }

  Task<void> read_page(Client& client, Direction direction, unsigned limit) {
    const bool first = direction == Direction::kFirst, down = direction == Direction::kNewer;
    const timeline::PageQuery query{std::string(kChannel), client.timeline->reader, direction,
                                    down ? client.newest : client.oldest, static_cast<int>(limit)};
    if (first || down) client.reading_newer = true;
    if (first || !down) client.reading_older = true;
    // The list of pulled authors is the first round trip, the page the second. Changes by others
    // between its further round trips may or may not be included.
    int trips = 0;
    unsigned seen = 0;
    bool disturbed = false;
    SteppedRedis redis(
        inner_, turns_, members_,
        [&](const redis::Reply* members) {
          disturbed |= ++trips > 2 && seen != changes_;
          observe(Cause::kPage, members);
          seen = changes_;
        },
        shared_order_);
    timeline::RedisTimelineStore store(redis, redis, deferred_, cards_, settings_, keys_, {},
                                       milliseconds(0));
    const auto page = co_await store.read(query);
    if (first || down) client.reading_newer = false;
    if (first || !down) client.reading_older = false;
    REQUIRE(page);
    check_shape(query, *page);
    if (!disturbed) check_exactly(query, *page, *client.timeline);
    for (const timeline::TimelineEntry& each : page->items) {
      const bool fresh = client.seen.emplace(each.score, each.item.str()).second;
      ensure(fresh, "an item appears only once", each.item.str(), each.score);
    }
    if (down) client.saw_trimmed |= page->trimmed;
    if (first || down) client.newest = page->newest_score;
    if (first || !down) client.oldest = page->oldest_score;
    client.opened = true;
    reached_end_ = page->items.empty() && !page->has_more;
  }

  // Newest first, all beyond the cursor, at most `limit`.
  static void check_shape(const timeline::PageQuery& query, const timeline::TimelinePage& page) {
    const bool empty = page.items.empty(), down = query.direction == Direction::kNewer;
    ensure(page.items.size() <= static_cast<std::size_t>(query.limit), "a page has at most `limit` items");
    for (std::size_t i = 1; i < page.items.size(); ++i)
      ensure(page.items[i].score < page.items[i - 1].score, "items are ordered newest first",
             page.items[i].item.str());
    const std::int64_t cursor = query.direction == Direction::kFirst ? 0 : query.cursor;
    ensure(page.newest_score == (empty ? cursor : page.items.front().score),
           "newest_score is the highest score");
    ensure(page.oldest_score == (empty ? cursor : page.items.back().score),
           "oldest_score is the lowest score");
    ensure(!empty || !page.has_more, "an empty page has no more");
    if (down)
      ensure((page.newer_count > 0) == page.has_more, "newer_count is above 0 if and only if there is more");
    if (down) ensure(empty || page.oldest_score > query.cursor, "all items are newer than the cursor");
    if (query.direction == Direction::kOlder)
      ensure(empty || page.newest_score < query.cursor, "all items are older than the cursor");
  }

  // Compares the page with the timeline at this moment.
  void check_exactly(const timeline::PageQuery& query, const timeline::TimelinePage& page,
                     const Timeline& timeline) {
    std::vector<std::int64_t> visible;  // nearest first
    for (const auto& [score, item] : timeline.entries) {
      const bool beyond =
          query.direction == Direction::kFirst ||
          (query.direction == Direction::kNewer ? score > query.cursor : score < query.cursor);
      if (beyond && !hidden_.contains(item)) visible.push_back(score);
    }
    if (query.direction != Direction::kNewer) std::reverse(visible.begin(), visible.end());
    const bool more = visible.size() > static_cast<std::size_t>(query.limit);
    if (more) visible.resize(static_cast<std::size_t>(query.limit));
    if (query.direction == Direction::kNewer) std::reverse(visible.begin(), visible.end());
    std::vector<std::int64_t> got;
    for (const auto& each : page.items) {
      got.push_back(each.score);
      const auto there = timeline.entries.find(each.score);
      ensure(there != timeline.entries.end() && there->second == each.item.str(), "items keep their scores");
    }
    ensure(got == visible, "the page has the nearest visible items");
    ensure(page.has_more == more, "has_more is exact");
    const auto below = [&](std::int64_t edge) {
      return query.direction == Direction::kNewer ? query.cursor < edge
                                                  : query.cursor > 0 && query.cursor <= edge;
    };
    const bool gone = query.cursor > 0 && timeline.highest_ever == 0;
    if (query.direction == Direction::kFirst) {
      ensure(!page.trimmed, "the first page is never trimmed");
    } else if (gone || below(timeline.cut_off())) {
      ensure(page.trimmed, "trimmed items are reported");
    } else if (!below(timeline.maybe_cut_off)) {
      ensure(!page.trimmed, "trimmed is not reported without cause");
    }
    std::int64_t newer = 0, newer_shown = 0;
    for (auto each = timeline.entries.upper_bound(page.newest_score); each != timeline.entries.end();
         ++each) {
      ++newer;
      newer_shown += hidden_.contains(each->second) ? 0 : 1;
    }
    ensure(newer_shown <= page.newer_count && page.newer_count <= newer,
           "newer_count is the number of newer items");
  }

  // --- the site

  Task<void> push(unsigned count) {
    timeline::PushRequest push{std::string(kChannel), {}, {}};
    for (unsigned i = 0; i < count; ++i) push.items.push_back(ItemId::trusted(any_item()));
    for (const Timeline& each : timelines_) {
      if (chance(70)) push.readers.push_back(each.reader);
    }
    const auto pushed = co_await store_.push(push);
    REQUIRE(pushed);
  }
  Task<void> publish() {
    const AuthorId author = any_author();
    std::vector<ItemId> published;
    for (unsigned left = 1 + draw(3); left > 0; --left) published.push_back(ItemId::trusted(any_item()));
    for (const ItemId& each : published) ++published_[each.str()];
    const auto job = co_await follows_.publish(author, published);
    REQUIRE(job);
  }
  Task<void> follow() {
    const AuthorId author = any_author();
    const ReaderId reader = any_timeline().reader;
    const auto followed = co_await follows_.follow(reader, author);
    REQUIRE(followed);
  }
  Task<void> unfollow() {
    const AuthorId author = any_author();
    const ReaderId reader = any_timeline().reader;
    const auto unfollowed = co_await unfollows_.unfollow(reader, author);
    REQUIRE(unfollowed);
  }
  Task<void> remove() {
    const Timeline& timeline = any_timeline();
    ItemId item = ItemId::trusted(any_item());
    if (!timeline.entries.empty()) {
      auto at = timeline.entries.begin();
      std::advance(at, draw(static_cast<unsigned>(timeline.entries.size())));
      item = ItemId::trusted(at->second);
    }
    const auto removed = co_await removing_store_.remove(std::string(kChannel), timeline.reader, item);
    REQUIRE(removed);
  }
  // Hides, deletes or restores an item, as item_put.lua does.
  void toggle_hidden(const std::string& item) {
    ++changes_;
    redis::Pipeline command;
    const std::string key = keys_.item(item);
    command.add("DEL", key);
    if (hidden_.contains(item)) {
      hidden_.erase(item);
    } else {
      hidden_.insert(item);
      was_hidden_.insert(item);
      if (chance(50)) {
        command.add("HSET", key, "hidden", 1, "deleted", 1);
        was_deleted_.insert(item);
      } else {
        command.add("HSET", key, "published_at", 1, "hidden", 1);
      }
    }
    REQUIRE(inner_.call(command));
  }

  // Writes posted by a page.
  class DeferredWrites final : public redis::WriteQueue {
   public:
    explicit DeferredWrites(Explorer& of) : of_(of) {}
    bool post(redis::Pipeline pipeline, std::vector<redis::SpoolRecord>, OnReplies) override {
      of_.start(of_.write(std::move(pipeline)));
      return true;
    }
    Result<void> spool(const redis::SpoolRecord&) override { return fail(ErrorCode::kInternal, "not_faked"); }

   private:
    Explorer& of_;
  };
  Task<void> write(redis::Pipeline pipeline) {
    const auto written = co_await deferred_redis_.run(pipeline);
    REQUIRE(written);
  }

  // --- timelines, observed after each round trip

  enum class Cause { kPage, kPush, kRemoval };
  void observe(Cause cause, const redis::Reply* members) {
    for (Timeline& timeline : timelines_) {
      const redis::Reply& pairs = *members++;
      Entries now;
      for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
        const auto score = redis::to_int(redis::string_at(pairs, i + 1));
        ensure(now.emplace(score, redis::string_at(pairs, i)).second, "scores are distinct");
      }
      change(timeline, std::move(now), cause);
    }
  }
  redis::Pipeline all_members() const {
    redis::Pipeline out;
    for (std::size_t i = 0; i < kReaders; ++i)
      out.add("ZRANGEBYSCORE", keys_.timeline(kChannel, name_of_reader(i)), "(0", "+inf", "WITHSCORES");
    return out;
  }
  void change(Timeline& timeline, Entries now, Cause cause) {
    if (now != timeline.entries) ++changes_;
    const std::int64_t highest = timeline.highest_ever;
    const auto most = static_cast<std::size_t>(settings_.timeline.max_items);
    std::set<std::string> stayed;
    for (const auto& [score, item] : timeline.entries) stayed.insert(item);
    for (const auto& [score, item] : now) {
      if (timeline.entries.contains(score)) continue;
      ensure(score > highest, "items join at the head", item, score);
      ensure(score < timeline::kScoreEnd, "scores stay below kScoreEnd", item, score);
      ensure(!stayed.contains(item), "an existing item keeps its position", item, score);
      timeline.highest_ever = std::max(timeline.highest_ever, score);
      if (cause != Cause::kPage) continue;
      ensure(++timeline.pulled[item] <= published_[item], "no item is pulled twice", item, score);
    }
    bool unclear = false;
    const std::size_t cut_before = timeline.trimmed.size();
    for (const auto& [score, item] : timeline.entries) {
      if (now.contains(score) || cause == Cause::kRemoval) continue;
      if (cause == Cause::kPage && was_deleted_.contains(item)) {
        unclear = true;
        continue;
      }
      ensure(now.empty() || score < now.begin()->first, "the oldest items are trimmed", item, score);
      timeline.trimmed.emplace(score, item);
    }
    if (cause == Cause::kPush && timeline.trimmed.size() > cut_before)
      ensure(now.size() == most, "no more is trimmed than necessary");
    const bool all_new = !now.empty() && now.begin()->first > highest;
    if (unclear || all_new)
      timeline.maybe_cut_off = now.empty() ? timeline.highest_ever : now.begin()->first - 1;
    timeline.maybe_cut_off = std::max(timeline.maybe_cut_off, timeline.cut_off());
    ensure(now.size() <= most, "timelines are bounded");
    timeline.entries = std::move(now);
  }

  // --- final checks

  void drain(Client& client) {
    if (!client.opened) run_now(client, Direction::kFirst);
    for (const Direction direction : {Direction::kNewer, Direction::kOlder}) {
      reached_end_ = false;
      for (int pages = 0; !reached_end_; ++pages) {
        REQUIRE(pages < 100);
        run_now(client, direction);
      }
    }
  }
  void run_now(Client& client, Direction direction) {
    start(read_page(client, direction, 1 + draw(5)));
    finish();
  }
  void check_nothing_lost(const Client& client) {
    for (const auto& [score, item] : client.timeline->entries) {
      const auto seen = client.seen.find(score);
      // An item that was hidden when the client passed it may be visible now.
      const bool may_be_missed = was_hidden_.contains(item) && seen == client.seen.end();
      ensure(may_be_missed || (seen != client.seen.end() && seen->second == item),
             "every remaining item was seen", item, score);
    }
    for (const auto& [score, item] : client.timeline->trimmed) {
      const bool missed =
          score > client.oldest && !client.seen.contains(score) && !was_hidden_.contains(item);
      ensure(!missed || client.saw_trimmed, "a gap is reported", item, score);
    }
  }

  // Followed authors and their followers must agree.
  void check_graph() {
    redis::Pipeline ask;
    for (const Timeline& each : timelines_) {
      for (std::size_t i = 0; i < kAuthors; ++i) {
        const std::string author = name_of_author(i);
        ask.add("ZSCORE", keys_.followed_authors(each.reader.view()), author);
        ask.add("ZSCORE", keys_.followers(author), each.reader.view());
      }
    }
    const auto replies = inner_.call(ask);
    REQUIRE(replies);
    for (std::size_t i = 0; i < replies->size(); i += 2)
      ensure((*replies)[i].is_nil() == (*replies)[i + 1].is_nil(), "both sides of a follow agree");
  }

  std::mt19937 random_;
  const test::ClusterOrder order_;
  const test::ClusterOrder* const shared_order_;
  redis::BlockingRedis& inner_;
  const redis::Keys keys_;
  const Settings settings_;
  const redis::Pipeline members_ = all_members();
  test::StepScheduler turns_{random_};
  SteppedRedis deferred_redis_{inner_, turns_, members_,
                               [this](auto* members) { observe(Cause::kPage, members); }, shared_order_};
  SteppedRedis pushes_{inner_, turns_, members_, [this](auto* members) { observe(Cause::kPush, members); },
                       shared_order_};
  // In program order even in a cluster: no barrier prevents a follow between the two steps of an
  // unfollow.
  SteppedRedis removals_{inner_, turns_, members_,
                         [this](auto* members) { observe(Cause::kRemoval, members); }};
  items::RedisItemStore items_{inner_, settings_, keys_};
  items::CardCache cards_{items_, 0};
  DeferredWrites deferred_{*this};
  timeline::RedisTimelineStore store_{pushes_, pushes_, deferred_, cards_, settings_, keys_};
  timeline::RedisTimelineStore removing_store_{removals_, removals_, deferred_, cards_, settings_, keys_};
  int jobs_ = 0;
  timeline::RedisFollowStore follows_{pushes_, settings_, keys_,
                                      [this] { return "job" + std::to_string(++jobs_); }};
  timeline::RedisFollowStore unfollows_{removals_, settings_, keys_, [] { return std::string(); }};
  std::array<Timeline, kReaders> timelines_;
  std::array<Client, kReaders * kClients> clients_;
  std::set<std::string> hidden_, was_hidden_, was_deleted_;  // items
  std::map<std::string, int> published_;                     // number of publications by any author
  int in_flight_ = 0;
  std::exception_ptr failed_;
  bool reached_end_ = false;  // the last page was the end of its direction
  unsigned changes_ = 0;      // of any timeline or of an item's visibility
};

unsigned number_of(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

// Empty if the invariant held in all runs, else the first violation.
std::string explore(Deployment on, int runs) {
  test::RedisServer server;
  redis::BlockingRedis redis(server.endpoint(), milliseconds(10000), redis::kAllScripts);
  // A script that must be loaded first would run after the probe.
  redis::Pipeline load;
  for (const redis::Script& each : redis::kAllScripts) load.add("SCRIPT", "LOAD", each.source);
  REQUIRE(redis.call(load));
  const bool one = std::getenv("FRESHET_INVARIANT_SEED") != nullptr;
  const unsigned begin = number_of("FRESHET_INVARIANT_SEED", std::random_device{}());
  for (unsigned i = 0; i < (one ? 1 : number_of("FRESHET_INVARIANT_RUNS", static_cast<unsigned>(runs)));
       ++i) {
    INFO("FRESHET_INVARIANT_SEED=" << begin + i);
    Explorer explorer(redis, begin + i, on);
    try {
      explorer.run(30);
    } catch (const InvariantViolation& violation) {
      return "FRESHET_INVARIANT_SEED=" + std::to_string(begin + i) + ": " + violation.what();
    }
  }
  return {};
}

}  // namespace

TEST_CASE("a client that follows the rules sees what stays in its timeline once and in order",
          "[waterfall][invariant][long]") {
  CHECK(explore(Deployment::kStandalone, test::repeat_count(400, 20000)) == "");
}

TEST_CASE("the invariant holds in a cluster that runs commands in any order between barriers",
          "[waterfall][invariant][long]") {
  CHECK(explore(Deployment::kCluster, test::repeat_count(200, 10000)) == "");
}

TEST_CASE("without barriers the invariant does not hold in a cluster", "[waterfall][invariant]") {
  CHECK(explore(Deployment::kClusterWithoutBarriers, 1000) != "");
}
