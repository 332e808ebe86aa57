// No key lives longer than core/redis/keys.h says, whatever the sequence of operations. Checks
// every key in Redis after each of many random operations. FRESHET_SEED repeats a run.
#include <cstdlib>
#include <random>

#include "core/feed/feed_store.h"
#include "core/feed/seen_fingerprints.h"
#include "core/hot/contributions.h"
#include "core/readers/personal_data.h"
#include "core/readers/read_buffer.h"
#include "core/readers/reader_store.h"
#include "core/readers/spool_records.h"
#include "tests/support/repeat_count.h"
#include "tests/timeline/follow_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// Every key without a TTL: {key, 1 for the hash of a registered item, …}.
constexpr std::string_view kWithoutTtl = R"(
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then
    out[#out + 1] = key
    out[#out + 1] = redis.call('TYPE', key).ok == 'hash' and redis.call('HEXISTS', key, key:find('^item:') and 'published_at' or 'date') == 1 and '1' or '0'
  end
end
return out)";

class RandomOperations : public FollowFixture {
 public:
  explicit RandomOperations(std::uint64_t seed) : FollowFixture({""}), random_(seed) {
    settings.feed.max_pending = 500;
    settings.history.size = 3;
    settings.fanout.max_push_followers = 2;
    settings.items_unknown_max = 5;
    settings.items_unknown_networks = 10;
    reopen();
    write_queue.apply = [this](const auto& fields) {
      return freshet::hot::is_hot_event(fields) ? freshet::hot::apply_spool_record(*hot, fields)
                                                : freshet::readers::apply_spool_record(*readers, fields);
    };
    readers.emplace(redis, write_queue, settings, keys(),
                    [this] { return "made-" + std::to_string(++events); });
    feed.emplace(redis, filter, settings, keys(), wall_now,
                 [](const ReaderId& reader) { return "h" + reader.str(); });
    reads.emplace(write_queue, settings, keys());
  }

  // Performs a random operation and describes it.
  std::string step() {
    const std::string id = "i" + random_number(12), who = "v" + random_number(6);
    const ItemId item_id = ItemId::trusted(id);
    const ReaderId reader = ReaderId::trusted(who);
    switch (below(20)) {
      case 0:
      case 1:
      case 2: {
        // Sessions and event ids are shared between visitors.
        hot::TrackEvent event = track_event(id, who, below(5) * 1000, "s" + random_number(4));
        event.attributed_to = event.visitor;
        event.untrusted_dwell = below(2) == 0;
        event.admission = random_admission();
        if (below(3) == 0) event.event_id = EventId::trusted("e" + random_number(5));
        // As if an unverified article's first report were ten minutes older.
        if (below(3) == 0 && command("HEXISTS", keys().article(id), "nets_since").integer() == 1)
          command("HINCRBY", keys().article(id), "nets_since", -600);
        if (below(4) == 0) {
          REQUIRE(hot->spool_track(event));
          return "track, spooled";
        }
        if (!run_sync(hot->track(event))) return "track, refused";
        flush_deferred();
        return "track " + id + " by " + who;
      }
      case 3:
      case 4: {
        hot::ViewEvent event = view_event(id, "f" + random_number(6));
        event.attributed_to = VisitorId::trusted(who);
        event.admission = random_admission();
        if (below(3) == 0) event.event_id = EventId::trusted("e" + random_number(5));
        if (below(4) == 0) {
          REQUIRE(hot->spool_view(event));
          return "view, spooled";
        }
        if (!run_sync(hot->view(event))) return "view, refused";
        flush_deferred();
        return "view " + id + " by " + who;
      }
      case 5: {
        write_queue.replay();
        if (below(2) == 0) write_queue.spooled.clear();  // otherwise it is replayed again, as after a crash
        return "replay";
      }
      case 6: {
        auto contributions = run_sync(hot::read_contributions(redis, keys(), who));
        REQUIRE(contributions);
        std::vector<ItemId> item_ids;
        for (const hot::ItemContribution& each : *contributions) item_ids.push_back(each.item);
        REQUIRE(run_sync(hot::revert_contributions(redis, settings, keys(), who, item_ids)));
        return "revert " + who;
      }
      case 7: {
        items::Item one = item(id, now() - seconds{below(3) * 3600 - 3600});
        one.hidden = below(4) == 0;
        one.tags = {TagName::trusted("t" + random_number(3))};
        put(one);
        return "put " + id;
      }
      case 8:
        remove(id);
        return "delete " + id;
      case 9: {
        const readers::View one{reader, item_id,
                                below(2) == 0 ? readers::ViewKind::kTopic : readers::ViewKind::kReply};
        REQUIRE((below(3) == 0 ? readers->spool_history_view(one) : run_sync(readers->record_view(one))));
        return "record view of " + id;
      }
      case 10:
        REQUIRE(run_sync(readers->clear_views(reader, readers::ViewKind::kTopic, std::nullopt)));
        return "clear";
      case 11:
        REQUIRE(run_sync(readers->merge_views(reader, ReaderId::trusted("v" + random_number(6)))));
        return "merge";
      case 12:
        REQUIRE(run_sync(readers->record_interactions({{reader, item_id, readers::Interaction::kLike, now(),
                                                        EventId::trusted("e" + random_number(5))}})));
        return "like";
      case 13:
        if (below(2) == 0) {
          REQUIRE(run_sync(readers->undo_dismissal(reader, item_id, std::nullopt)));
          return "undo";
        }
        REQUIRE(run_sync(readers->dismiss({reader, item_id, below(2) == 0 ? "why" : "",
                                           EventId::trusted(below(2) == 0 ? "" : "d" + random_number(5))})));
        return "dismiss";
      case 14:
        read_page(reader);
        return "feed";
      case 15:
        reads->add_interest(reader, item_id, settings.feed.interest_min_dwell);
        reads->flush();
        return "add_interest";
      case 16: {
        push({id, "i" + random_number(12)}, {who, "v" + random_number(6)}, "discover");
        page(timeline::Direction::kFirst, 0, 5, below(2) == 0 ? "discover" : "follow", who);
        return "push and read";
      }
      case 17: {
        const std::string author = "a" + random_number(3);
        REQUIRE((below(4) == 0 ? try_unfollow(author, who) : try_follow(author, who)));
        publish(author, {id});
        return "follow and publish";
      }
      case 18:
        command("DEL", keys().item(id));  // no script does this, but an operator may
        return "drop " + id;
      default: {
        auto list = run_sync(hot->cached_list(engagement_query()));
        REQUIRE(list);
        list->json = "[]";
        hot->store_list(engagement_query(), *list);
        return "list";
      }
    }
  }

  void expect_ttls() {
    const redis::Reply found = command("EVAL", kWithoutTtl, 0);
    for (std::size_t i = 0; i + 1 < found.size(); i += 2) {
      const std::string key(redis::string_at(found, i));
      const redis::KeyPattern* row = keys().pattern_of(key);
      INFO(key);
      REQUIRE(row);
      REQUIRE(row->permanent);
      if (row->pattern == "item:{*}" || row->pattern == "hot:article:{*}")
        REQUIRE(redis::string_at(found, i + 1) == "1");  // others expire with their counters
    }
  }

  std::optional<readers::RedisReaderStore> readers;
  feed::SeenFingerprints filter{settings.seen, keys()};
  std::optional<feed::RedisFeedStore> feed;
  std::optional<readers::ReadBuffer> reads;

 private:
  int below(int bound) { return std::uniform_int_distribution(0, bound - 1)(random_); }
  // From the site itself or from a network; with more networks than an article needs to be listed.
  hot::EventAdmission random_admission() {
    if (below(3) == 0) return {};
    const std::string network(6, static_cast<char>('a' + below(12)));
    return {network, network, below(4) > 0, below(4) > 0};
  }
  std::string random_number(int bound) { return std::to_string(below(bound)); }

  // A refresh or the next page, of which a random part is reported as seen.
  void read_page(const ReaderId& reader) {
    const feed::FeedRequest request{reader, below(2) == 0 ? "r" + random_number(3) : "",
                                    below(3) == 0 ? "q" : "", 3};
    feed::Page page;
    const auto next = run_sync(feed->next_page(request));
    REQUIRE(next);
    if (next->status == feed::PageResult::Status::kPage) {
      page = next->page;
    } else {
      const auto state = run_sync(feed->load_state(request, false));
      REQUIRE(state);
      std::vector<ItemId> candidates;
      for (int i = 0; i < 8; ++i) candidates.push_back(ItemId::trusted("i" + std::to_string(i)));
      const auto swapped = run_sync(feed->swap_buffer(request, {state->generation,
                                                                state->delivery_seq,
                                                                state->external_impressions,
                                                                candidates,
                                                                below(2) == 0,
                                                                {}}));
      REQUIRE(swapped);
      page = swapped->page;
    }
    std::vector<ItemId> shown = page.items;
    shown.resize(static_cast<std::size_t>(below(static_cast<int>(shown.size()) + 1)), ItemId::trusted("i"));
    feed::Impressions seen{{{page.delivery_seq, page.items}}, shown, now(), below(2) == 0, below(4) == 0};
    if (below(6) == 0) seen.deliveries.clear();
    if (below(3) > 0) REQUIRE(run_sync(feed->record(reader, seen)));
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("every key has its TTL when the operation that created it has finished", "[property][ttl]") {
  const char* const env_seed = std::getenv("FRESHET_SEED");
  const std::uint64_t first = env_seed ? std::strtoull(env_seed, nullptr, 10) : std::random_device{}();
  for (int round = 0; round < (env_seed ? 1 : repeat_count(4, 200)); ++round) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(round);
    RandomOperations operations(seed);
    for (int i = 0; i < 1500; ++i) {
      const std::string description = operations.step();
      INFO("FRESHET_SEED=" << seed << ", command " << i << ": " << description);
      operations.expect_ttls();
    }
  }
}
