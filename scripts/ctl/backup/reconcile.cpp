#include "scripts/ctl/backup/reconcile.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/hot/rebuild.h"
#include "core/items/item_store.h"
#include "core/recorder/group.h"
#include "core/recorder/restore_readers.h"
#include "core/recorder/stream.h"
#include "core/recorder/write_batch.h"
#include "core/redis/fields.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;
using redis::string_at;
using redis::run_sync;

namespace {

constexpr std::size_t kIdsAtOnce = 500;

class Reconciler {
 public:
  Reconciler(redis::BlockingRedis& redis, database::Database& database, const Settings& settings,
             const redis::Endpoint& endpoint)
      : redis_(redis),
        database_(database),
        settings_(settings),
        endpoint_(endpoint),
        keys_(settings.redis),
        items_(redis, settings, keys_, items::RedisItemStore::StreamPolicy::kSkip) {}

  Result<Reconciled> run() {
    for (const auto step : {&Reconciler::streams, &Reconciler::items_of_database, &Reconciler::items_of_redis,
                            &Reconciler::hidden, &Reconciler::readers, &Reconciler::follows,
                            &Reconciler::rank, &Reconciler::loss}) {
      if (auto ok = (this->*step)(); !ok) return tl::unexpected(ok.error());
    }
    return done_;
  }

 private:
  // What is not yet recorded goes into the database, and jobs alone stay for the recorder. No
  // stream's last id is below what was recorded of it.
  Result<void> streams() {
    if (auto ok = recorder::create_groups(redis_, keys_); !ok) return ok;
    FRESHET_TRY(given, recorder::Streams(settings_, endpoint_).last_generated_ids());
    for (unsigned each = 0; each < keys_.partition_count(); ++each) {
      if (auto ok = stream(each, (*given)[each]); !ok) return ok;
    }
    return {};
  }

  Result<void> stream(unsigned number, const std::string& given) {
    const std::string key = keys_.partition(number).stream();
    FRESHET_TRY(recorded, database_.last_entry(keys_.partition(number).hash_tag()));
    if (!recorded->empty() && recorder::precedes(given, *recorded)) {
      if (auto ok = send(Pipeline().add("XSETID", key, *recorded)); !ok) return ok;
    }
    std::string from = "-";
    for (;;) {
      Pipeline read;
      read.add("XRANGE", key, from, "+", "COUNT", kIdsAtOnce);
      FRESHET_TRY(replies, ask(redis_, read));
      const Reply& entries = replies->front();
      if (entries.size() == 0) return {};
      from = "(" + std::string(string_at(entries[entries.size() - 1], 0));
      recorder::EntryBatch batch = recorder::parse_batch(entries, number);
      if (batch.empty()) continue;
      if (auto ok = recorder::write_batch(database_, batch, keys_); !ok) return ok;
      Pipeline drop;
      drop.command(2 + batch.entries.size()).arg("XDEL").arg(key);
      for (const recorder::EntryId& each : batch.entries) drop.arg(each.id);
      if (auto ok = send(drop); !ok) return ok;
    }
  }

  Result<void> items_of_database() {
    std::vector<items::Item> batch;
    auto read = database_.for_each_item([&](const items::Item& item) -> Result<void> {
      known_.insert(item.id.str());
      batch.push_back(item);
      if (batch.size() < kIdsAtOnce) return {};
      auto ok = put_changed(batch);
      batch.clear();
      return ok;
    });
    return read ? put_changed(batch) : read;
  }

  // Those that Redis has otherwise or not at all, or that a set of their tags lacks, which may be
  // of another moment than the hash.
  Result<void> put_changed(const std::vector<items::Item>& some) {
    Pipeline look;
    for (const items::Item& each : some) {
      items::append_item_read(look, keys_, each.id);
      look.add("HMGET", keys_.article(each.id.view()), "date", "hidden");
      for (const TagName& tag : each.tags)
        look.add("SMISMEMBER", keys_.partition_for(each.id.view()).tagged_items(tag.view()), each.id.view());
    }
    if (look.empty()) return {};
    FRESHET_TRY(replies, ask(redis_, look));
    std::vector<items::Item> changed;
    std::size_t at = 0;
    for (const items::Item& each : some) {
      const auto there = items::parse_item(each.id, (*replies)[at++]);
      const Reply& counted_by = (*replies)[at++];
      bool same = there && items::to_fields(*there) == items::to_fields(each) &&
                  string_at(counted_by, 0) == std::to_string(unix_s(each.published_at)) &&
                  string_at(counted_by, 1) == (each.hidden ? "1" : "0");
      for (std::size_t i = 0; i < each.tags.size(); ++i)
        same = (*replies)[at++][0].integer().value_or(0) == 1 && same;
      if (!same) changed.push_back(each);
    }
    done_.items_put += static_cast<std::int64_t>(changed.size());
    return changed.empty() ? Result<void>() : run_sync(items_.put_many(changed));
  }

  // Deleted after Redis was saved and before the database was.
  Result<void> items_of_redis() {
    return walk(redis_, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
      std::vector<std::string> ids;
      Pipeline look;
      for (const std::string& key : found) {
        const auto plain = keys_.strip_prefix(key);
        const auto id = plain ? after(*plain, "item:") : std::nullopt;
        if (!id || known_.contains(std::string(*id))) continue;
        ids.emplace_back(*id);
        look.add("HEXISTS", key, "published_at");
      }
      if (ids.empty()) return {};
      FRESHET_TRY(put, ask(redis_, look));
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if ((*put)[i].integer().value_or(0) == 0) continue;  // only seen, never put
        ++done_.items_removed;
        if (auto ok = run_sync(items_.remove(ItemId::trusted(ids[i]))); !ok) return ok;
      }
      return {};
    });
  }

  Result<void> hidden() {
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      if (auto ok = hidden_of(each); !ok) return ok;
    }
    return {};
  }

  Result<void> hidden_of(const redis::PartitionKeys& group) {
    return walk(redis_, "ZSCAN", group.hidden(), [&](std::vector<std::string> found) -> Result<void> {
      Pipeline look;
      for (const std::string& each : found) look.add("ZSCORE", group.hidden(), each);
      FRESHET_TRY(until, ask(redis_, look));
      std::size_t at = 0;  // what is only dated ahead keeps its places
      std::erase_if(found, [&](const std::string&) {
        return redis::is_embargo(redis::parse_or_zero<double>((*until)[at++].string().value_or("")));
      });
      if (found.empty()) return {};
      std::vector<std::string> keys{group.newest()};
      for (const hot::Model& model : hot::kModels) keys.push_back(group.rank(model));
      Pipeline out;
      for (const std::string& key : keys) {
        out.command(2 + found.size()).arg("ZREM").arg(key);
        for (const std::string& each : found) out.arg(each);
      }
      return send(out);
    });
  }

  Result<void> readers() {
    const auto restored = recorder::restore_readers(redis_, database_, settings_, wall_now());
    return restored ? Result<void>() : tl::unexpected(restored.error());
  }

  Result<void> follows() {
    return walk(redis_, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
      for (const std::string& key : found) {
        const auto plain = keys_.strip_prefix(key);
        if (!plain) continue;
        Result<void> ok;
        if (const auto reader = after(*plain, "follow:authors:")) ok = one_sided(key, *reader, true);
        if (const auto author = after(*plain, "follow:readers:")) ok = one_sided(key, *author, false);
        if (!ok) return ok;
      }
      return {};
    });
  }

  Result<void> one_sided(const std::string& key, std::string_view owner, bool of_reader) {
    return walk(redis_, "ZSCAN", key, [&](const std::vector<std::string>& members) -> Result<void> {
      Pipeline look, drop;
      for (const std::string& each : members)
        look.add("ZSCORE", of_reader ? keys_.followers(each) : keys_.followed_authors(each), owner);
      if (look.empty()) return {};
      FRESHET_TRY(others, ask(redis_, look));
      for (std::size_t i = 0; i < members.size(); ++i)
        if (!members[i].starts_with(':') && (*others)[i].is_nil()) drop.add("ZREM", key, members[i]);
      if (drop.empty()) return {};
      FRESHET_TRY(replies, ask(redis_, drop));
      for (const Reply& each : *replies) done_.half_follows += each.integer().value_or(0);
      return {};
    });
  }

  Result<void> rank() {
    const auto rebuilt = run_sync(hot::rebuild_ranks(redis_, settings_, keys_));
    return rebuilt ? Result<void>() : tl::unexpected(rebuilt.error());
  }

  // A backup may have been made of a Redis that had lost its items: it has them now.
  Result<void> loss() { return recorder::clear_data_loss(redis_, keys_); }

  Result<void> send(const Pipeline& pipeline) {
    FRESHET_TRY(replies, ask(redis_, pipeline));
    for (const Reply& each : *replies) {
      if (each.is_error()) return tl::unexpected(redis::classify(each.error()));
    }
    return {};
  }

  redis::BlockingRedis& redis_;
  database::Database& database_;
  const Settings& settings_;
  const redis::Endpoint& endpoint_;
  const redis::Keys keys_;
  items::RedisItemStore items_;
  std::unordered_set<std::string> known_;  // ids, in the database
  Reconciled done_;
};

}  // namespace

Result<Reconciled> reconcile(redis::BlockingRedis& redis, database::Database& database, const Settings& settings,
                             const redis::Endpoint& endpoint) {
  return Reconciler(redis, database, settings, endpoint).run();
}

}  // namespace freshet::ctl
