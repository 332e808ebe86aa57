#include "core/recorder/write_batch.h"

#include <variant>

#include "core/recorder/stream.h"

namespace freshet::recorder {
namespace {

struct RowWriter {
  database::ReaderRows& rows;
  Result<void> operator()(const readers::ReaderEvent& event) const { return rows.put_interaction(event); }
  Result<void> operator()(const DismissalChange& each) const {
    return rows.put_dismissal(each.dismissal, each.at);
  }
  Result<void> operator()(const DismissalRemoval& each) const {
    return rows.remove_dismissal(each.reader, each.item, each.at);
  }
  Result<void> operator()(const readers::Follow& each) const { return rows.put_follow(each); }
  Result<void> operator()(const FollowRemoval& each) const {
    return rows.remove_follow(each.reader, each.author);
  }
};

Result<void> put_last_entries(database::Database& database, const std::vector<EntryId>& entries,
                              const redis::Keys& keys) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i + 1 < entries.size() && entries[i + 1].stream == entries[i].stream) continue;
    auto ok = database.put_last_entry(keys.partition(entries[i].stream).hash_tag(), entries[i].id);
    if (!ok) return ok;
  }
  return {};
}

// An entry that is delivered again after it was committed must not count twice. last_entry() would
// not do: it goes back when several batches are delivered again.
Result<void> add_counts(database::Database& database, const EntryBatch& batch, const redis::Keys& keys) {
  const UnixSeconds now = wall_now();
  for (const ViewCounts& each : batch.view_counts) {
    const std::string_view stream = keys.partition(each.entry.stream).hash_tag();
    FRESHET_TRY(counted, database.counted_entry(stream));
    if (!precedes(*counted, each.entry.id)) continue;
    for (const auto& [bucket, item, views] : each.counts) {
      if (auto ok = database.add_views(bucket, item, views, now); !ok) return ok;
    }
    for (const auto& [item, next, count] : each.covisits) {
      if (auto ok = database.add_covisits(item, next, each.covisits_at, count, now); !ok) return ok;
    }
    if (auto ok = database.put_counted_entry(stream, each.entry.id); !ok) return ok;
  }
  return {};
}

Result<void> write_rows(database::Database& database, const EntryBatch& batch, const redis::Keys& keys) {
  for (const ItemChange& each : batch.item_changes) {
    auto ok = each.operation == ItemChange::Operation::kPut ? database.put_item(each.item)
                                                            : database.remove_item(each.item.id);
    if (!ok) return ok;
  }
  for (const ReaderChange& each : batch.reader_changes) {
    if (auto ok = std::visit(RowWriter{database.readers()}, each); !ok) return ok;
  }
  if (auto ok = add_counts(database, batch, keys); !ok) return ok;
  return put_last_entries(database, batch.entries, keys);
}

}  // namespace

Result<void> write_batch(database::Database& database, const EntryBatch& batch, const redis::Keys& keys) {
  if (auto ok = database.begin(); !ok) return ok;
  auto written = write_rows(database, batch, keys);
  if (written) written = database.commit();
  if (!written) database.rollback();
  return written;
}

}  // namespace freshet::recorder
