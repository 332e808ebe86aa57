// Every script gives the same result whatever the ids of items, readers, authors and tags are: the
// same random operations run under plain ids and under hostile ones.
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "core/base/fingerprint.h"
#include "core/base/utf8.h"
#include "core/feed/feed_store.h"
#include "core/feed/seen_fingerprints.h"
#include "core/items/impression_counter.h"
#include "core/readers/personal_keys.h"
#include "core/readers/reader_store.h"
#include "core/timeline/follow_store.h"
#include "core/timeline/timeline_store.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::size_t kIds = 8;
using Ids = std::vector<std::string>;

// Fragments of ids that were separators, marks, parts of key names or patterns anywhere.
const Ids kFragments{
    "a:b", "{x}", "%7B",  "a b", "%",  "\\", "}:{", ":",  "*",  "[a]",  "?",           "'",
    "\"",  "été", "日本", "%%",  "=",  "0=", "1",   "t:", "::", "hll}", "{all}",       "ms3",
    ",",   "|",   "a  b", "-",   "=a", "^",  "$",   "%d", "%S", "#",    "👩‍💻", "a%20b"};

// Distinct ids, also when folded: one of 512 bytes, the others of up to four fragments.
Ids hostile_ids() {
  Ids out{std::string(170, ':') + std::string(342, '%')};
  while (out.size() < kIds) {
    std::string id;
    for (const auto& part :
         *rc::gen::resize(4, rc::gen::nonEmpty(rc::gen::container<Ids>(rc::gen::elementOf(kFragments)))))
      id += part;
    const auto parsed = ItemId::parse(id, "id");
    const auto same = [&](const std::string& each) { return utf8::fold(each) == utf8::fold(id); };
    if (parsed && parsed->str() == id && TagName::parse(id, "tag") && std::ranges::none_of(out, same))
      out.push_back(id);
  }
  return out;
}

Ids plain_ids() {
  Ids out;
  for (std::size_t i = 0; i < kIds; ++i) out.push_back("i" + std::to_string(i));
  return out;
}

struct Operation {
  int kind, a, b;
};

// A site whose ids are `ids`; describes what it does by their numbers.
class World {
 public:
  World(redis::BlockingRedis& redis, redis::Keys keys, Ids ids)
      : ids_(std::move(ids)), redis_(redis), keys_(std::move(keys)) {
    settings_.fanout.max_push_followers = 0;  // every author with a follower is pulled
    settings_.timeline.max_items = 5;
    settings_.interactions.max_kept = 4;
    settings_.history.size = 3;
    settings_.list.rebuild_interval = std::chrono::hours(24);
    for (std::size_t i = 0; i < ids_.size(); ++i) numbers_[ids_[i]] = numbers_[utf8::fold(ids_[i])] = i;
  }

  std::vector<std::string> run(const std::vector<Operation>& operations) {
    for (const Operation& each : operations) {
      log_.push_back(std::to_string(each.kind) + ":");
      (this->*kOperations.at(static_cast<std::size_t>(each.kind)))(static_cast<std::size_t>(each.a),
                                                                   static_cast<std::size_t>(each.b));
    }
    end();
    return log_;
  }
  static constexpr int kOperationCount = 15;

 private:
  const std::string& id(std::size_t i) const { return ids_[i % kIds]; }
  ItemId item(std::size_t i) const { return ItemId::trusted(id(i)); }
  ReaderId reader(std::size_t i) const { return ReaderId::trusted(id(i)); }
  AuthorId author(std::size_t i) const { return AuthorId::trusted(utf8::fold(id(i))); }

  void note(std::string text) { log_.back() += " " + std::move(text); }
  std::string number_of(std::string_view text) const {
    const auto found = numbers_.find(std::string(text));
    return found == numbers_.end() ? "unknown:" + std::string(text) : std::to_string(found->second);
  }
  void note_ids(Ids ids, bool sorted = false) {
    for (std::string& each : ids) each = number_of(each);
    if (sorted) std::sort(ids.begin(), ids.end());
    std::string text = "[";
    for (const std::string& each : ids) text += each + " ";
    note(text + "]");
  }
  // Pages are in the order of their slots, which depends on the clock: sort their items.
  template <class Range>
  void note_items(const Range& items, bool sorted = false) {
    Ids out;
    for (const auto& each : items) out.push_back(each.str());
    note_ids(out, sorted);
  }
  template <class T>
  T must(Result<T> result) {
    INFO((result ? "" : std::string(result.error().reason) + " " + result.error().detail));
    REQUIRE(result);
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  void flush() { deferred_.flush(); }

  void put(std::size_t a, std::size_t b) {
    items::Item one;
    one.id = item(a);
    one.title = "title";
    one.author = id(b);
    one.tags = {TagName::trusted(id(b)), TagName::trusted(id(b + 1))};
    one.published_at = wall_now() - seconds(60);
    one.hidden = a % kIds == b % kIds;
    must(run_sync(items_.put(one)));
    const items::Item stored = must(run_sync(items_.get(one.id)));
    note_ids({stored.id.str(), stored.author, stored.tags[0].str(), stored.tags[1].str()});
  }
  void remove(std::size_t a, std::size_t) { must(run_sync(items_.remove(item(a)))); }
  void track(std::size_t a, std::size_t b) {
    hot::TrackEvent event = Fixture::track_event(id(a), id(b), 1000);
    event.event_id = EventId::trusted(id(a + b));
    event.attributed_to = VisitorId::trusted(id(b));
    const auto counted = must(run_sync(hot_.track(event)));
    note(std::to_string(counted.pv));
    flush();
  }
  void view(std::size_t a, std::size_t b) {
    hot::ViewEvent event = Fixture::view_event(id(a), id(b));
    event.admission = {.network = "n" + std::to_string(b % kIds), .wide_network = "w"};
    event.attributed_to = VisitorId::trusted(id(b));
    const auto counted = must(run_sync(hot_.view(event)));
    note(counted.dedup ? "dedup" : "counted");
    flush();
  }
  void revert(std::size_t a, std::size_t) {
    Ids reverted;
    std::vector<ItemId> of;
    for (const auto& each : must(run_sync(hot::read_contributions(redis_, keys_, id(a)))))
      of.push_back(each.item);
    for (const auto& each : must(run_sync(hot::revert_contributions(redis_, settings_, keys_, id(a), of))))
      reverted.push_back(each.item.str());
    note_ids(reverted, true);
  }
  void history(std::size_t a, std::size_t b) {
    const auto kind = b % 2 == 0 ? readers::ViewKind::kTopic : readers::ViewKind::kReply;
    must(run_sync(readers_.record_view({reader(a), item(b), kind, EventId::trusted(id(a + b))})));
    if (b % 3 == 0) must(run_sync(readers_.remove_view(reader(a), kind, item(b + 2), {})));
    if (b % 5 == 0) must(run_sync(readers_.clear_views(reader(b), kind, {})));
    Ids out;
    for (const auto& each : must(run_sync(readers_.views(reader(a), kind)))) out.push_back(each.item.str());
    note_ids(out);
  }
  void interact(std::size_t a, std::size_t b) {
    const UnixSeconds at = wall_now() - seconds(1000 - ++steps_);
    for (const auto& each : must(run_sync(readers_.record_interactions(
             {{reader(a), item(b), readers::Interaction::kLike, at, EventId::trusted(id(b))}}))))
      must(each);
    const auto state = must(run_sync(readers_.read(reader(a))));
    Ids kept;
    for (const auto& each : state.interactions) kept.push_back(each.item.str());
    note_ids(kept);
    for (std::size_t i = 0; i < kIds && state.archived; ++i)
      note(state.archived->contains(fingerprint(id(i))) ? "archived" : "-");
  }
  void dismiss(std::size_t a, std::size_t b) {
    const UnixSeconds at = wall_now() - seconds(1000 - ++steps_);
    must(run_sync(readers_.dismiss({reader(a), item(b), id(a), {}, at})));
    if (b % 3 == 0) must(run_sync(readers_.undo_dismissal(reader(a), item(b + 1), {})));
    Ids out;
    for (const auto& each : must(run_sync(readers_.read(reader(a)))).dismissals)
      out.push_back(each.item.str());
    note_ids(out);
  }
  void push(std::size_t a, std::size_t b) {
    const auto pushed = must(
        run_sync(timelines_.push({"discover", {item(b), item(b + 1), item(b)}, {reader(a), reader(a + 1)}})));
    note(std::to_string(pushed.pushed) + " " + std::to_string(pushed.duplicates));
    must(run_sync(timelines_.remove("discover", reader(a), item(b + 3))));
    note_page("discover", a);
  }
  void note_page(const std::string& channel, std::size_t a) {
    Ids out;
    for (const auto& each : must(run_sync(timelines_.read({channel, reader(a)}))).items)
      out.push_back(each.item.str());
    note_ids(out);
  }
  void follow(std::size_t a, std::size_t b) {
    must(run_sync(follows_.follow(reader(a), author(b))));
    must(run_sync(follows_.publish(author(b), {item(a), item(b)})));
    note_page("follow", a);
    if (b % 4 == 0) must(run_sync(follows_.unfollow(reader(a), author(b))));
    Ids out;
    for (const auto& each : must(run_sync(follows_.followed_authors(reader(a))))) out.push_back(each.str());
    note_ids(out, true);
  }
  // A refresh, a page of the buffer, its refill, acknowledgements and replays.
  void feed(std::size_t a, std::size_t b) {
    feed::FeedRequest request{reader(a), id(b), id(b), 3};
    const auto state = must(run_sync(feed_.load_state(request, true)));
    note(state.is_replay ? "replay" : "new");
    note_items(state.buffered_items);
    // load_state() stops at a replay, wherever that page is.
    if (!state.is_replay) note_items(state.delivered_items, true);
    std::vector<ItemId> candidates;
    for (std::size_t i = 0; i < kIds; ++i) candidates.push_back(item(a + i));
    const auto swapped = must(run_sync(feed_.swap_buffer(
        request, {state.generation, state.delivery_seq, state.external_impressions, candidates, false, {}})));
    if (swapped.must_reload) return note("again");
    note_items(swapped.page.items);
    request.idempotency_key = id(b + 1);
    auto page = must(run_sync(feed_.next_page(request)));
    note_items(page.page.items);
    note_items(must(run_sync(feed_.replay_page(request, {item(a + 3), item(a + 4), item(b)}))));
    if (page.status != feed::PageResult::Status::kPage) return note("empty");
    page.page.items.resize(std::min<std::size_t>(page.page.items.size(), 1));
    page = must(run_sync(feed_.refill_page(request, page.page)));
    note_items(page.page.items);
    feed::Impressions shown;
    shown.deliveries = {{page.page.delivery_seq, page.page.items},
                        {swapped.page.delivery_seq, swapped.page.items}};
    shown.items = page.page.items;
    shown.at = wall_now();
    must(run_sync(feed_.record(reader(a), shown)));
    const auto after = must(run_sync(feed_.load_state(request, true)));
    if (!after.is_replay) note_items(after.delivered_items, true);
    if (after.seen_view) {
      std::string seen;
      for (const bool each : after.seen_view->contains(candidates)) seen += each ? '1' : '0';
      note(seen);
    }
  }
  void impressions(std::size_t a, std::size_t b) {
    items::ImpressionCounter shown(queue_, keys_);
    shown.add(std::vector<ItemId>{item(a), item(b), item(a)});
    shown.flush();
    redis::Pipeline read;
    read.add("HGET", keys_.article(id(a)), "shown");
    note(std::string(must(redis_.call(read))[0].text()));
  }
  void list(std::size_t a, std::size_t b) {
    for (hot::ListQuery query : {engagement_query(), accumulate_query()}) {
      query.tag = TagName::trusted(utf8::fold(id(a)));
      Ids out;
      for (const auto& each : must(run_sync(hot_.rank_page(query, {}, 100))).items)
        out.push_back(each.item.str());
      note_ids(out, true);
      auto cached = must(run_sync(hot_.cached_list(query)));
      if (cached.freshness == hot::CachedList::Freshness::kMustBuild) {
        cached.json = id(b);
        hot_.store_list(query, cached);
      }
      note_ids({must(run_sync(hot_.cached_list(query))).json});
    }
    std::vector<hot::BucketName> names;
    for (const auto& each : must(run_sync(hot_.buckets()))) names.push_back(each.name);
    Ids heads;
    for (const auto& each : must(run_sync(hot_.bucket_heads(names, 0, 100))))
      heads.push_back(each.item.str());
    note_ids(heads, true);
  }
  void reply(std::size_t a, std::size_t b) {
    const EventId event = EventId::trusted(id(a));
    must(run_sync(timelines_.store_reply("discover", event, id(b))));
    note_ids({must(run_sync(timelines_.load_reply("discover", event))).value_or("none")});
  }
  void stats(std::size_t a, std::size_t) {
    const auto stats = must(run_sync(hot_.stats({item(a)}, hot::Ranks::kInclude))).front();
    note(std::to_string(stats.pv));
  }

  // Rebuilds the ranks from the names of all keys, and finds each reader's keys by a scan.
  void end() {
    log_.emplace_back("end:");
    note(std::to_string(must(run_sync(hot::rebuild_ranks(redis_, settings_, keys_))).items));
    Ids ranked;
    for (const auto& each : must(run_sync(hot_.rank_page(engagement_query(), {}, 100))).items)
      ranked.push_back(each.item.str());
    note_ids(ranked, true);
    for (std::size_t i = 0; i < kIds; ++i) {
      std::map<std::string, int> found;
      std::string cursor = "0";
      std::set<std::string> known;
      do {
        auto page = must(run_sync(readers::scan_personal_keys(redis_, keys_, {id(i)}, cursor)));
        for (const std::string& key : page.keys) {
          if (known.insert(key).second) ++found[std::string(keys_.pattern_of(key)->pattern)];
        }
        cursor = page.cursor;
      } while (cursor != "0");
      for (const auto& [pattern, count] : found) note(pattern + "=" + std::to_string(count));
    }
  }

  using Run = void (World::*)(std::size_t, std::size_t);
  static const std::array<Run, kOperationCount> kOperations;

  const Ids ids_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> log_;
  int steps_ = 0, events_ = 0;
  Settings settings_;
  redis::BlockingRedis& redis_;
  const redis::Keys keys_;
  ImmediateWriteQueue queue_{redis_};
  DeferredWork deferred_{queue_, settings_, keys_};
  std::function<std::string()> new_id_ = [this] { return "made-" + std::to_string(++events_); };
  hot::RedisHotStore hot_{redis_, deferred_.writers, settings_, keys_, new_id_};
  items::RedisItemStore items_{redis_, settings_, keys_};
  items::CardCache cards_{items_, 0};
  readers::RedisReaderStore readers_{redis_, queue_, settings_, keys_, new_id_};
  feed::SeenFingerprints filter_{settings_.seen, keys_};
  feed::RedisFeedStore feed_{redis_, filter_, settings_, keys_};
  timeline::RedisTimelineStore timelines_{
      redis_, redis_, queue_, cards_, settings_, keys_, redis::RunAfter(), milliseconds(0)};
  timeline::RedisFollowStore follows_{redis_, settings_, keys_, new_id_};
};

const std::array<World::Run, World::kOperationCount> World::kOperations{
    &World::put,     &World::remove,      &World::track,   &World::view,  &World::revert,
    &World::history, &World::interact,    &World::dismiss, &World::push,  &World::follow,
    &World::feed,    &World::impressions, &World::list,    &World::reply, &World::stats};

// Runs random operations under both kinds of ids, whose keys have different prefixes.
bool gives_same_results(redis::BlockingRedis& redis, redis::Keys::Topology topology) {
  int run = 0;
  return rc::check("results do not depend on ids", [&] {
    // The range of inRange() is that of its size.
    const auto full = [](int end) { return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, end)); };
    const auto small = full(static_cast<int>(kIds));
    const auto operations =
        *rc::gen::resize(60, rc::gen::container<std::vector<Operation>>(
                                 rc::gen::construct<Operation>(full(World::kOperationCount), small, small)));
    const Ids ids = hostile_ids();
    const std::string prefix = std::to_string(++run);
    World plain(redis, redis::Keys("plain" + prefix + ":", topology), plain_ids());
    World hostile(redis, redis::Keys("hostile" + prefix + ":", topology), ids);
    const auto expected = plain.run(operations), found = hostile.run(operations);
    for (std::size_t i = 0; i < ids.size(); ++i) RC_LOG() << i << ": " << ids[i] << "\n";
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      if (found[i] != expected[i]) RC_LOG() << found[i] << "\ninstead of\n" << expected[i] << "\n";
    }
    RC_ASSERT(found == expected);
  });
}

}  // namespace

TEST_CASE("no script's result depends on the ids, on one Redis", "[ids]") {
  Fixture fixture;
  CHECK(gives_same_results(fixture.redis, redis::Keys::Topology::kStandalone));
}

TEST_CASE("no script's result depends on the ids, on a cluster", "[ids]") {
  RedisCluster cluster(3);
  redis::BlockingRedis redis(cluster.endpoint(), milliseconds(20000), redis::kAllScripts);
  CHECK(gives_same_results(redis, redis::Keys::Topology::kCluster));
}
