// Key names never collide, whatever the ids are.
#include "core/redis/keys.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>

#include "core/redis/cluster/slot.h"
#include "core/redis/partitions/key_encoding.h"

using namespace freshet;
using redis::Keys;

namespace {

const UnixSeconds kDay{seconds{1772755200}};  // 2026-03-06

// Ids that look like segments of our key names.
const std::vector<std::string> kHostile{"hll",
                                        "list",
                                        "20260306",
                                        "rank",
                                        "meta",
                                        "lock",
                                        "index",
                                        "event",
                                        "view",
                                        "views",
                                        "uv",
                                        "pv",
                                        "sum",
                                        "cnt",
                                        "hot",
                                        "item",
                                        "topic",
                                        "reply",
                                        "at",
                                        "why",
                                        "newest",
                                        "not_interested",
                                        "views:at",
                                        "tag",
                                        "next",
                                        "score",
                                        "current",
                                        "0",
                                        "-1",
                                        "493000",
                                        "dwell",
                                        "first_ts",
                                        "dedup",
                                        "session",
                                        "epoch",
                                        "hidden",
                                        "published",
                                        "*",
                                        "?",
                                        "[a]",
                                        "\\",
                                        "软件",
                                        "a.b",
                                        "a|b",
                                        "accumulate",
                                        "engagement",
                                        "a:b",
                                        "{x}",
                                        "a}:{b",
                                        "%7Bx%7D",
                                        "%",
                                        "%3A",
                                        "a b",
                                        "a%20b",
                                        ":",
                                        "{",
                                        "}",
                                        "x}:20260306",
                                        "\x1e",
                                        "a\x1e"
                                        "1"};

// Every key name for a pair of ids, and what it stands for.
std::vector<std::pair<std::string, std::string>> names(const Keys& k, const std::string& a,
                                                       const std::string& b) {
  const std::string pair = a + "\n" + b;
  const redis::PartitionKeys g = k.partition(k.partition_count() - 1);
  std::vector<std::pair<std::string, std::string>> out{
      {k.uv_hll(a), "hll " + a},
      {k.article(a), "article " + a},
      {k.item(a), "item " + a},
      {k.covisits(a), "covisits " + a},
      {k.uv_day(a, kDay), "uv " + a},
      {g.tagged_items(a), "tag " + a},
      {k.session(a, b), "session " + pair},
      {k.track_event(a, b), "event " + pair},
      {k.view_event(a, b), "view event " + pair},
      {k.dedup(a, b), "dedup " + pair},
      {k.feed_cache(a), "feed cache " + a},
      {k.feed_state(a), "feed state " + a},
      {k.interactions(a), "interactions " + a},
      {k.archived_interactions(a), "earlier " + a},
      {k.view_history(readers::ViewKind::kTopic, a), "topics " + a},
      {k.view_history(readers::ViewKind::kReply, a), "replies " + a},
      {k.view_times(a), "views at " + a},
      {k.not_interested(a), "not interested " + a},
      {k.not_interested_reasons(a), "not interested why " + a},
      {k.reader_event_ids(a), "reader events " + a},
      {k.seen_epoch(a), "seen epoch " + a},
      {k.tombstone(a), "erased " + a},
      {k.merged_into(a), "merged " + a},
      {k.merge_guard(a), "merging " + a},
      {k.merged_names(a), "visitors " + a},
      {k.timeline(a, b), "timeline " + pair},
      {k.active_readers(a), "active " + a},
      {k.followed_authors(a), "authors of " + a},
      {k.followers(a), "readers of " + a},
      {k.outbox(a), "outbox " + a},
      {k.pull_outbox(a), "pull outbox " + a},
      {k.pull_authors(), "pulled"},
      {k.job(a), "job " + a},
      {k.push_event(a, b), "push event " + pair},
      {g.newest(), "newest"},
      {k.seen_shard("20260306", "{7}"), "seen shard"},
      {k.seen_day("20260306"), "seen day"},
      {g.stream(), "stream"},
      {g.fence(), "fence"},
      {k.recorder_lease(), "lease"},
      {k.spools_empty_at(), "spools"},
      {k.rank_meta(), "rank meta"},
      {g.meta(), "rank meta"},
      {k.rank_maintenance_lock(), "rank turn"},
      {g.unranked(), "unplaced"},
      {g.unverified(), "unlisted"},
      {k.rank_rebuild_lock(), "rank lock"},
      {g.published(), "published"},
      {g.hidden(), "hidden"},
      {k.epoch(), "epoch"},
      {k.partition_count_key(), "partition count"},
      {k.data_lost_at(), "lost"},
      {g.current_bucket_index(), "index"},
      {g.current_bucket(493000), "current 493000"},
      {g.current_bucket(0), "current 0"},
  };
  for (const hot::Model& model : hot::kModels) {
    const std::string by(model.name);
    out.emplace_back(g.rank(model), "rank " + by);
    out.emplace_back(g.rank_versions(model), "placed " + by);
    if (model.is_computed()) {
      out.emplace_back(g.staging_rank(model), "rank next " + by);
      out.emplace_back(g.staging_rank_versions(model), "placed next " + by);
    }
    for (const int window : {0, 86400}) {
      hot::ListQuery query;
      query.model = &model;
      query.window = seconds{window};
      query.tag = TagName::trusted(a);
      const std::string what = by + std::to_string(window) + a;
      out.emplace_back(k.list(query), "list " + what);
      out.emplace_back(k.list_meta(query), "list meta " + what);
      out.emplace_back(k.list_lock(query), "list lock " + what);
    }
  }
  out.emplace_back(k.list({}), "list");
  out.emplace_back(k.contributions(a), "added " + a);
  out.emplace_back(k.list_meta({}), "list meta");
  out.emplace_back(k.list_lock({}), "list lock");
  return out;
}

}  // namespace

TEST_CASE("no two key names collide, for all pairs of hostile ids", "[keys]") {
  const Keys keys("p:");
  std::map<std::string, std::string> meanings;
  for (const auto& a : kHostile) {
    for (const auto& b : kHostile) {
      for (const auto& [name, meaning] : names(keys, a, b)) {
        const auto [at, added] = meanings.emplace(name, meaning);
        if (!added && at->second != meaning) FAIL_CHECK(name << " is " << at->second << " and " << meaning);
      }
    }
  }
  CHECK(meanings.size() > 5000);
}

TEST_CASE("ids are encoded in key names and decoded when these are read back", "[keys]") {
  const Keys keys("p:");
  CHECK(keys.article("a:{b}%c d") == "p:hot:article:{a%3A%7Bb%7D%25c%20d}");
  CHECK(keys.item("\xC3\xA9\\*?[x]") == "p:item:{\xC3\xA9\\*?[x]}");
  CHECK(keys.partition(0).tagged_items("lang:en") == "p:tag:lang%3Aen");
  CHECK(keys.timeline("follow",
                      "\x1d"
                      "ann") == "p:wf:follow:{%1Dann}");
  for (const std::string& id : kHostile) {
    INFO(id);
    CHECK(keys.id_of_article(keys.article(id)) == id);
    const std::string session = *keys.strip_prefix(keys.session("7", id));
    CHECK(redis::key_segment(session, 3) == id);
    CHECK(redis::key_segment(*keys.strip_prefix(keys.session(id, "s")), 2) == id);
    std::string encoded;
    redis::append_encoded(encoded, id);
    CHECK(encoded.size() == redis::encoded_size(id));
    CHECK(redis::decode_key_part(encoded) == id);
    CHECK(encoded.find_first_of(":{} ") == encoded.npos);
  }
  for (const std::string text : {"%", "%2", "%zz", "a%", "%3a"}) CHECK(redis::decode_key_part(text) == text);
}

TEST_CASE("an id's partition is that of the slot of its keys, whatever the id contains", "[keys]") {
  const Keys keys("p:", Keys::Topology::kCluster);
  for (const std::string& id : kHostile) {
    INFO(id);
    CHECK(keys.partition_of(id) == keys.slot_or_zero(keys.article(id)) / 1024);
    CHECK(keys.slot_or_zero(keys.item(id)) == keys.slot_or_zero(keys.session(id, "s")));
    CHECK(keys.strip_prefix(keys.item(id)) == Keys("").item(id));
    CHECK(keys.strip_prefix(keys.partition_for(id).tagged_items(id)) ==
          Keys("").partition(0).tagged_items(id));
  }
}

TEST_CASE("every key name has a row in the table, and every row has a name", "[keys]") {
  const Keys keys("");
  std::set<const redis::KeyPattern*> used;
  for (const auto& [name, meaning] : names(keys, "abc", "def")) {
    INFO(name);
    const auto* row = keys.pattern_of(name);
    REQUIRE(row);
    used.insert(row);
  }
  const Keys prefixed("site:");
  for (const auto& [name, meaning] : names(prefixed, "abc", "def")) {
    INFO(name);
    CHECK(prefixed.pattern_of(name));
    CHECK(keys.pattern_of(name) == nullptr);
  }
  CHECK(used.size() == redis::kKeyPatterns.size());
  CHECK(keys.pattern_of("hot:something") == nullptr);
  CHECK(keys.pattern_of("hot:article:{a}:b") == nullptr);
  CHECK(keys.pattern_of("hot:article:a") == nullptr);
  CHECK(keys.pattern_of("hot:current:index")->permanent);
  CHECK_FALSE(keys.pattern_of("hot:current:493000")->permanent);
}

TEST_CASE("in a cluster keys that scripts use together share a slot, and every name has its row", "[keys]") {
  const Keys keys("p:", Keys::Topology::kCluster), plain("p:");
  std::map<std::string, const redis::KeyPattern*> rows;
  for (const auto& [name, meaning] : names(plain, "abc", "def")) rows[meaning] = plain.pattern_of(name);
  const redis::PartitionKeys last = keys.partition(15);
  const unsigned all = keys.slot_or_zero(keys.epoch()), partition = keys.slot_or_zero(last.hidden());
  // scripts/check-keys relies on this.
  const std::set<std::string_view> shared_patterns{"hot:rank:lock", "hot:rank:turn", "hot:epoch",
                                                   "hot:groups",    "hot:lost",      "recorder:lease"};
  const std::set<std::string_view> partition_patterns{"recorder:stream", "recorder:fence"};
  for (const auto& [name, meaning] : names(keys, "abc", "def")) {
    INFO(name);
    CHECK(keys.pattern_of(name) == rows[meaning]);
    const std::string_view pattern = rows[meaning]->pattern;
    const bool braces = pattern.find('{') != pattern.npos;
    const bool shared =
        shared_patterns.contains(pattern) || pattern.starts_with("hot:list") || name == keys.rank_meta();
    const bool partitioned =
        (!shared && !braces && (pattern.starts_with("hot:") || pattern.starts_with("tag:"))) ||
        partition_patterns.contains(pattern);
    CHECK((keys.slot_or_zero(name) == all) == shared);
    CHECK((keys.slot_or_zero(name) == partition) == partitioned);
  }
  CHECK(keys.partition(0).staging_rank(hot::kEngagementModel) == "p:hot:rank:next:{ms3}");
  CHECK(keys.partition(1).tagged_items("swift") == "p:tag:swift:{mws}");
  CHECK(keys.list({}) == "p:hot:list:{all}");
}

TEST_CASE("an id equal to the shared hash tag or a partition's hash tag is treated as an id", "[keys]") {
  const Keys keys("p:", Keys::Topology::kCluster);
  for (const std::string id : {"all", "ms3"}) {
    CHECK(keys.strip_prefix(keys.article(id)) == "hot:article:{" + id + "}");
    CHECK(keys.strip_prefix(keys.timeline("c", id)) == "wf:c:{" + id + "}");
    CHECK(keys.pattern_of(keys.item(id))->pattern == "item:{*}");
  }
  CHECK(keys.strip_prefix(keys.epoch()) == "hot:epoch");
  CHECK(keys.strip_prefix(keys.partition(0).tagged_items("a")) == "tag:a");
}

TEST_CASE("partitions are spread evenly over masters with equal slot ranges", "[keys]") {
  const unsigned partitions = 16;
  for (unsigned masters = 3; masters <= 16; ++masters) {
    INFO(masters);
    std::map<unsigned, unsigned> partitions_by_master;
    for (unsigned g = 0; g < partitions; ++g) {
      const unsigned slot =
          redis::slot_of("hot:rank:{" + std::string(redis::partition_hash_tag(g, partitions)) + "}");
      ++partitions_by_master[slot * masters / redis::kSlots];
    }
    CHECK(partitions_by_master.size() == masters);
    for (const auto& [master, count] : partitions_by_master)
      CHECK(count <= (partitions + masters - 1) / masters + 1);
  }
}

TEST_CASE("a partition's hash tag is in the middle of its slot range and unique across partition counts",
          "[keys]") {
  std::set<std::string_view> tags;
  std::size_t all = 0;
  for (unsigned partitions = 1; partitions <= redis::kMaxPartitions; partitions *= 2) {
    REQUIRE(redis::is_valid_partition_count(partitions));
    for (unsigned g = 0; g < partitions; ++g, ++all) {
      const std::string_view tag = redis::partition_hash_tag(g, partitions);
      tags.insert(tag);
      const int middle = static_cast<int>((2 * g + 1) * (redis::kSlots / 2) / partitions);
      CHECK(std::abs(static_cast<int>(redis::slot_of(tag)) - middle) <= 1);
      CHECK(redis::partition_of_hash_tag(tag).partition == g);
      CHECK(redis::partition_of_hash_tag(tag).partition_count == partitions);
    }
  }
  CHECK(tags.size() == all);
  CHECK(redis::partition_of_hash_tag("all").partition_count == 0);
  for (const int none : {0, 3, 12, 128}) CHECK_FALSE(redis::is_valid_partition_count(none));
}

TEST_CASE("articles are spread over the partitions by their hash slot", "[keys]") {
  std::map<unsigned, int> articles_by_partition;
  for (int i = 0; i < 16000; ++i) {
    const std::string id = "article-" + std::to_string(i);
    const unsigned partition = redis::partition_of(id, 16);
    CHECK(partition == redis::slot_of("item:{" + id + "}") / 1024);
    ++articles_by_partition[partition];
  }
  CHECK(articles_by_partition.size() == 16);
  for (const auto& [partition, count] : articles_by_partition) CHECK(count < 1500);
}

TEST_CASE("key names are stable, and the id is in braces", "[keys]") {
  const Keys keys("");
  CHECK(keys.article("7") == "hot:article:{7}");
  CHECK(keys.uv_hll("7") == "hot:uv:hll:{7}");
  CHECK(keys.partition(0).rank(hot::kEngagementModel) == "hot:rank");
  CHECK(keys.partition(0).rank(hot::kViewsModel) == "hot:score");
  CHECK(keys.uv_day("7", kDay) == "hot:uv:{7}:20260306");
  CHECK(keys.dedup("7", "f") == "hot:dedup:{7}:f");
  CHECK(keys.list({}) == "hot:list");
  CHECK(keys.feed_cache("7") == "feed:cache:{7}");
  CHECK(keys.seen_day("20260306") == "bf:global:20260306");
}
