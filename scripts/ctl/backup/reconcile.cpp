#include "scripts/ctl/backup/reconcile.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/utf8.h"
#include "core/items/item_store.h"
#include "core/recorder/consumer_groups.h"
#include "core/recorder/restore_readers.h"
#include "core/recorder/stream.h"
#include "core/recorder/write_batch.h"
#include "core/redis/fields.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;
using redis::run_sync;
using redis::string_at;

namespace {

constexpr std::size_t kBatchSize = 500;

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

  Result<ReconcileResult> run() {
    for (const auto step :
         {&Reconciler::drain_streams, &Reconciler::write_database_items, &Reconciler::remove_deleted_items,
          &Reconciler::unrank_hidden, &Reconciler::restore_reader_data, &Reconciler::drop_one_sided_follows,
          &Reconciler::clear_data_loss}) {
      if (auto ok = (this->*step)(); !ok) return tl::unexpected(ok.error());
    }
    return result_;
  }

 private:
  // Records pending entries in the database and leaves only jobs in the streams. Raises each
  // stream's last id to the last recorded one.
  Result<void> drain_streams() {
    if (auto ok = recorder::create_groups(redis_, keys_); !ok) return ok;
    FRESHET_TRY(last_ids, recorder::Streams(settings_, endpoint_).last_generated_ids());
    for (unsigned each = 0; each < keys_.partition_count(); ++each) {
      const std::string key = keys_.partition(each).stream();
      FRESHET_TRY(recorded, database_.last_entry(keys_.partition(each).hash_tag()));
      if (!recorded->empty() && recorder::precedes((*last_ids)[each], *recorded)) {
        if (auto ok = send(Pipeline().add("XSETID", key, *recorded)); !ok) return ok;
      }
      if (auto ok = record_entries(keys_, each); !ok) return ok;
    }
    return drain_other_streams();
  }

  // Those of a Redis with other partitions (partition_mover.h). Their entries are recorded under
  // the ids and streams that they had, so that none counts twice.
  Result<void> drain_other_streams() {
    const std::string& prefix = settings_.redis.key_prefix;
    std::vector<redis::Keys> others{redis::Keys(prefix)};
    for (unsigned count = 1; count <= redis::kMaxPartitions; count *= 2)
      others.emplace_back(prefix, redis::Keys::Topology::kCluster, count);
    std::erase_if(others, [&](const redis::Keys& other) {
      return other.in_cluster() == keys_.in_cluster() && other.partition_count() == keys_.partition_count();
    });
    Pipeline questions;
    for (const redis::Keys& other : others) {
      for (unsigned each = 0; each < other.partition_count(); ++each)
        questions.add("EXISTS", other.partition(each).stream());
    }
    FRESHET_TRY(answers, run_pipeline(redis_, questions));
    std::size_t at = 0;
    for (const redis::Keys& other : others) {
      for (unsigned each = 0; each < other.partition_count(); ++each) {
        if ((*answers)[at++].integer() == 0) continue;
        if (auto ok = record_entries(other, each); !ok) return ok;
        if (auto ok = move_jobs(other.partition(each).stream()); !ok) return ok;
      }
    }
    return {};
  }

  Result<void> move_jobs(const std::string& stream) {
    FRESHET_TRY(replies, run_pipeline(redis_, Pipeline().add("XRANGE", stream, "-", "+")));
    const Reply& jobs = replies->front();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const Reply& fields = jobs[i][1];
      std::string_view about = redis::field_value(fields, "reader");
      if (about.empty()) about = redis::field_value(fields, "author");
      Pipeline add;
      add.command(3 + fields.size()).arg("XADD").arg(keys_.partition_for(about).stream()).arg("*");
      for (std::size_t field = 0; field < fields.size(); ++field) add.arg(string_at(fields, field));
      if (auto ok = send(add); !ok) return ok;
    }
    return send(Pipeline().add("UNLINK", stream));
  }

  Result<void> record_entries(const redis::Keys& keys, unsigned number) {
    const std::string key = keys.partition(number).stream();
    std::string from = "-";
    for (;;) {
      Pipeline read;
      read.add("XRANGE", key, from, "+", "COUNT", kBatchSize);
      FRESHET_TRY(replies, run_pipeline(redis_, read));
      const Reply& entries = replies->front();
      if (entries.size() == 0) return {};
      from = "(" + std::string(string_at(entries[entries.size() - 1], 0));
      recorder::EntryBatch batch = recorder::parse_batch(entries, number);
      if (batch.empty()) continue;
      if (auto ok = recorder::write_batch(database_, batch, keys); !ok) return ok;
      Pipeline drop;
      drop.command(2 + batch.entries.size()).arg("XDEL").arg(key);
      for (const recorder::EntryId& each : batch.entries) drop.arg(each.id);
      if (auto ok = send(drop); !ok) return ok;
    }
  }

  Result<void> write_database_items() {
    std::vector<items::Item> batch;
    auto read = database_.for_each_item([&](const items::Item& item) -> Result<void> {
      database_ids_.insert(item.id.str());
      batch.push_back(item);
      if (batch.size() < kBatchSize) return {};
      auto ok = put_changed(batch);
      batch.clear();
      return ok;
    });
    return read ? put_changed(batch) : read;
  }

  // Puts the items that differ or are missing in Redis, or are missing from one of their tags'
  // sets, which may have been saved at another time than the hash.
  Result<void> put_changed(const std::vector<items::Item>& batch) {
    Pipeline query;
    for (const items::Item& each : batch) {
      items::append_item_read(query, keys_, each.id);
      query.add("HMGET", keys_.article(each.id.view()), "date", "hidden");
      for (const TagName& tag : each.tags)
        query.add("SMISMEMBER", keys_.partition_for(each.id.view()).tagged_items(utf8::fold(tag.view())),
                  each.id.view());
    }
    if (query.empty()) return {};
    FRESHET_TRY(replies, run_pipeline(redis_, query));
    std::vector<items::Item> changed;
    std::size_t at = 0;
    for (const items::Item& each : batch) {
      const auto stored = items::parse_item(each.id, (*replies)[at++]);
      const Reply& counted_by = (*replies)[at++];
      bool same = stored && items::to_fields(*stored) == items::to_fields(each) &&
                  string_at(counted_by, 0) == std::to_string(unix_s(each.published_at)) &&
                  string_at(counted_by, 1) == (each.hidden ? "1" : "0");
      for (std::size_t i = 0; i < each.tags.size(); ++i)
        same = (*replies)[at++][0].integer().value_or(0) == 1 && same;
      if (!same) changed.push_back(each);
    }
    result_.items_put += static_cast<std::int64_t>(changed.size());
    return changed.empty() ? Result<void>() : run_sync(items_.put_many(changed));
  }

  // Removes items deleted after Redis was saved and before the database was.
  Result<void> remove_deleted_items() {
    return scan_all(redis_, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
      std::vector<std::string> ids;
      Pipeline query;
      for (const std::string& key : page) {
        const auto name = keys_.strip_prefix(key);
        const auto id = name ? strip_key_prefix(*name, "item:") : std::nullopt;
        if (!id || database_ids_.contains(*id)) continue;
        ids.push_back(*id);
        query.add("HEXISTS", key, "published_at");
      }
      if (ids.empty()) return {};
      FRESHET_TRY(is_put, run_pipeline(redis_, query));
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if ((*is_put)[i].integer().value_or(0) == 0) continue;  // only viewed, never put
        ++result_.items_removed;
        if (auto ok = run_sync(items_.remove(ItemId::trusted(ids[i]))); !ok) return ok;
      }
      return {};
    });
  }

  Result<void> unrank_hidden() {
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      if (auto ok = unrank_hidden_in(each); !ok) return ok;
    }
    return {};
  }

  Result<void> unrank_hidden_in(const redis::PartitionKeys& partition) {
    return scan_all(redis_, "ZSCAN", partition.hidden(), [&](std::vector<std::string> page) -> Result<void> {
      Pipeline query;
      for (const std::string& each : page) query.add("ZSCORE", partition.hidden(), each);
      FRESHET_TRY(until, run_pipeline(redis_, query));
      std::size_t at = 0;  // items under embargo keep their ranks
      std::erase_if(page, [&](const std::string&) {
        return redis::is_embargo(redis::parse_or_zero<double>((*until)[at++].string().value_or("")));
      });
      if (page.empty()) return {};
      std::vector<std::string> keys{partition.newest()};
      for (const hot::Model& model : hot::kModels) keys.push_back(partition.rank(model));
      Pipeline out;
      for (const std::string& key : keys) {
        out.command(2 + page.size()).arg("ZREM").arg(key);
        for (const std::string& each : page) out.arg(each);
      }
      return send(out);
    });
  }

  Result<void> restore_reader_data() {
    const auto restored = recorder::restore_readers(redis_, database_, settings_, wall_now());
    return restored ? Result<void>() : tl::unexpected(restored.error());
  }

  Result<void> drop_one_sided_follows() {
    return scan_all(redis_, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
      for (const std::string& key : page) {
        const auto name = keys_.strip_prefix(key);
        if (!name) continue;
        Result<void> ok;
        if (const auto reader = strip_key_prefix(*name, "follow:authors:"))
          ok = drop_one_sided(key, *reader, true);
        if (const auto author = strip_key_prefix(*name, "follow:readers:"))
          ok = drop_one_sided(key, *author, false);
        if (!ok) return ok;
      }
      return {};
    });
  }

  Result<void> drop_one_sided(const std::string& key, std::string_view owner, bool owner_is_reader) {
    return scan_all(redis_, "ZSCAN", key, [&](const std::vector<std::string>& members) -> Result<void> {
      Pipeline query, drop;
      for (const std::string& each : members)
        query.add("ZSCORE", owner_is_reader ? keys_.followers(each) : keys_.followed_authors(each), owner);
      if (query.empty()) return {};
      FRESHET_TRY(others, run_pipeline(redis_, query));
      for (std::size_t i = 0; i < members.size(); ++i)
        if (!redis::is_mark(members[i]) && (*others)[i].is_nil()) drop.add("ZREM", key, members[i]);
      if (drop.empty()) return {};
      FRESHET_TRY(replies, run_pipeline(redis_, drop));
      for (const Reply& each : *replies) result_.one_sided_follows += each.integer().value_or(0);
      return {};
    });
  }

  // The backup may be of a Redis that had lost its items; it has them now.
  Result<void> clear_data_loss() { return recorder::clear_data_loss(redis_, keys_); }

  Result<void> send(const Pipeline& pipeline) {
    FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
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
  std::unordered_set<std::string> database_ids_;  // ids of all items in the database
  ReconcileResult result_;
};

}  // namespace

Result<ReconcileResult> reconcile(redis::BlockingRedis& redis, database::Database& database,
                                  const Settings& settings, const redis::Endpoint& endpoint) {
  return Reconciler(redis, database, settings, endpoint).run();
}

}  // namespace freshet::ctl
