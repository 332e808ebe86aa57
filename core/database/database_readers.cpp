#include "core/database/database_readers.h"

#include <array>
#include <string_view>

#include "core/database/sqlite.h"

namespace freshet::database {
namespace {

enum StatementId : std::size_t {
  kFindReader,
  kAddReader,
  kAddInteraction,
  kPutDismissal,
  kRemoveDismissal,
  kPutFollow,
  kRemoveFollow,
  kMoveInteractions,
  kMoveDismissals,
  kMoveFollows,
  kDropInteractions,
  kDropDismissals,
  kDropFollows,
  kDropReader,
  kAllInteractions,
  kInteractionsOf,
  kAllDismissals,
  kDismissalsOf,
  kAllFollows,
  kFollowsOf,
  kStatementCount
};
constexpr std::array<std::string_view, kStatementCount> kSql{
    "SELECT key FROM readers WHERE id = ?1",
    "INSERT INTO readers (id) VALUES (?1)",
    "INSERT OR IGNORE INTO interactions (reader, at, item, kind) VALUES (?1, ?2, ?3, ?4)",
    "INSERT INTO dismissals (reader, item, at, reason) VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT (reader, item) DO UPDATE SET at = excluded.at, reason = excluded.reason"
    " WHERE excluded.at >= dismissals.at",
    "DELETE FROM dismissals WHERE reader = ?1 AND item = ?2 AND at <= ?3",
    "INSERT OR IGNORE INTO follows (reader, author, at) VALUES (?1, ?2, ?3)",
    "DELETE FROM follows WHERE reader = ?1 AND author = ?2",
    "INSERT OR IGNORE INTO interactions (reader, at, item, kind)"
    " SELECT ?2, at, item, kind FROM interactions WHERE reader = ?1",
    "INSERT INTO dismissals (reader, item, at, reason) SELECT ?2, item, at, reason FROM dismissals"
    " WHERE reader = ?1 ON CONFLICT (reader, item) DO UPDATE SET at = excluded.at, reason = excluded.reason"
    " WHERE excluded.at > dismissals.at",
    "INSERT OR IGNORE INTO follows (reader, author, at) SELECT ?2, author, at FROM follows WHERE reader = ?1",
    "DELETE FROM interactions WHERE reader = ?1",
    "DELETE FROM dismissals WHERE reader = ?1",
    "DELETE FROM follows WHERE reader = ?1",
    "DELETE FROM readers WHERE key = ?1",
    "SELECT readers.id, item, kind, at FROM interactions CROSS JOIN readers ON readers.key = reader"
    " ORDER BY reader, at",
    "SELECT readers.id, item, kind, at FROM readers CROSS JOIN interactions ON reader = readers.key"
    " WHERE readers.id = ?1 ORDER BY at, item, kind LIMIT ?2 OFFSET ?3",
    "SELECT readers.id, item, at, reason FROM dismissals CROSS JOIN readers ON readers.key = reader"
    " ORDER BY reader",
    "SELECT readers.id, item, at, reason FROM readers CROSS JOIN dismissals ON reader = readers.key"
    " WHERE readers.id = ?1 ORDER BY at LIMIT ?2",
    "SELECT readers.id, author, at FROM follows CROSS JOIN readers ON readers.key = reader ORDER BY reader",
    "SELECT readers.id, author, at FROM readers CROSS JOIN follows ON reader = readers.key"
    " WHERE readers.id = ?1 ORDER BY at, author LIMIT ?2"};

// Rewrites the readers table, keeping its keys. Dropping the old table and index frees, and so
// overwrites, their pages. The new index is built after the table is filled, in index order.
constexpr const char* kRewriteReaders = R"sql(
CREATE TABLE readers_new (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL
) STRICT;
INSERT INTO readers_new (key, id) SELECT key, id FROM readers ORDER BY key;
DROP TABLE readers;
ALTER TABLE readers_new RENAME TO readers;
CREATE UNIQUE INDEX readers_by_id ON readers (id);
)sql";

UnixSeconds at_second(std::int64_t second) { return UnixSeconds{seconds{second}}; }

// Calls `each` for every row and resets the statement afterwards, also after an error.
Result<void> for_each_row(PreparedStatement& query,
                          const std::function<Result<void>(const PreparedStatement&)>& each) {
  Result<void> outcome;
  while (outcome) {
    const auto has_row = query.step();
    if (!has_row) outcome = tl::unexpected(has_row.error());
    if (!has_row || !*has_row) break;
    outcome = each(query);
  }
  query.reset();
  return outcome;
}

Result<void> read_interactions(PreparedStatement& query, const ReaderRows::EachInteraction& each) {
  readers::ReaderEvent event;
  return for_each_row(query, [&](const PreparedStatement& row) -> Result<void> {
    const auto kind =
        row.text(2).size() == 1 ? readers::interaction_from_letter(row.text(2)[0]) : std::nullopt;
    if (!kind) return {};  // written by a later version
    if (event.reader.view() != row.text(0)) event.reader = ReaderId::trusted(std::string(row.text(0)));
    event.item = ItemId::trusted(std::string(row.text(1)));
    event.kind = *kind;
    event.at = at_second(row.integer(3));
    return each(event);
  });
}

Result<void> read_dismissals(PreparedStatement& query, const ReaderRows::EachDismissal& each) {
  return for_each_row(query, [&](const PreparedStatement& row) {
    readers::DismissalRecord out;
    out.dismissal.reader = ReaderId::trusted(std::string(row.text(0)));
    out.dismissal.item = ItemId::trusted(std::string(row.text(1)));
    out.at = at_second(row.integer(2));
    out.dismissal.reason = std::string(row.text(3));
    return each(out);
  });
}

Result<void> read_follows(PreparedStatement& query, const ReaderRows::EachFollow& each) {
  return for_each_row(query, [&](const PreparedStatement& row) {
    return each({ReaderId::trusted(std::string(row.text(0))), AuthorId::trusted(std::string(row.text(1))),
                 at_second(row.integer(2))});
  });
}

}  // namespace

struct ReaderRows::Impl {
  explicit Impl(SqliteConnection& connection) : db(connection) {}
  // 0 if the reader is unknown and `add` is false.
  Result<std::int64_t> reader_key(const ReaderId& reader, bool add);

  SqliteConnection& db;
  std::array<PreparedStatement, kStatementCount> queries;
};

ReaderRows::ReaderRows(std::unique_ptr<Impl> state) : impl_(std::move(state)) {}
ReaderRows::ReaderRows(ReaderRows&&) noexcept = default;
ReaderRows& ReaderRows::operator=(ReaderRows&&) noexcept = default;
ReaderRows::~ReaderRows() = default;

Result<ReaderRows> ReaderRows::create(SqliteConnection& db) {
  auto state = std::make_unique<Impl>(db);
  for (std::size_t i = 0; i < kStatementCount; ++i) {
    FRESHET_TRY(query, db.prepare(kSql[i]));
    state->queries[i] = std::move(*query);
  }
  return ReaderRows(std::move(state));
}

// --- Writing

Result<std::int64_t> ReaderRows::Impl::reader_key(const ReaderId& reader, bool add) {
  PreparedStatement& find = queries[kFindReader];
  FRESHET_TRY(found, find.bind(1, reader.view()).step());
  const std::int64_t key = *found ? find.integer(0) : 0;
  find.reset();
  if (key != 0 || !add) return key;
  if (auto ok = queries[kAddReader].bind(1, reader.view()).run(); !ok) return tl::unexpected(ok.error());
  return db.last_insert_rowid();
}

Result<void> ReaderRows::put_interaction(const readers::ReaderEvent& event) {
  FRESHET_TRY(key, impl_->reader_key(event.reader, true));
  const char letter = readers::kind_of(event.kind).letter;
  PreparedStatement& add = impl_->queries[kAddInteraction];
  add.bind(1, *key)
      .bind(2, unix_s(event.at))
      .bind(3, event.item.view())
      .bind(4, std::string_view(&letter, 1));
  return add.run();
}

Result<void> ReaderRows::put_dismissal(const readers::Dismissal& dismissal, UnixSeconds at) {
  FRESHET_TRY(key, impl_->reader_key(dismissal.reader, true));
  PreparedStatement& put = impl_->queries[kPutDismissal];
  put.bind(1, *key).bind(2, dismissal.item.view()).bind(3, unix_s(at)).bind(4, dismissal.reason);
  return put.run();
}

Result<void> ReaderRows::remove_dismissal(const ReaderId& reader, const ItemId& item, UnixSeconds at) {
  FRESHET_TRY(key, impl_->reader_key(reader, false));
  return impl_->queries[kRemoveDismissal].bind(1, *key).bind(2, item.view()).bind(3, unix_s(at)).run();
}

Result<void> ReaderRows::put_follow(const readers::Follow& follow) {
  FRESHET_TRY(key, impl_->reader_key(follow.reader, true));
  PreparedStatement& put = impl_->queries[kPutFollow];
  return put.bind(1, *key).bind(2, follow.author.view()).bind(3, unix_s(follow.at)).run();
}

Result<void> ReaderRows::remove_follow(const ReaderId& reader, const AuthorId& author) {
  FRESHET_TRY(key, impl_->reader_key(reader, false));
  return impl_->queries[kRemoveFollow].bind(1, *key).bind(2, author.view()).run();
}

Result<std::int64_t> ReaderRows::move(const ReaderId& from, const ReaderId& to) {
  FRESHET_TRY(from_key, impl_->reader_key(from, false));
  if (*from_key == 0 || from == to) return 0;
  FRESHET_TRY(to_key, impl_->reader_key(to, true));
  for (const StatementId copy : {kMoveInteractions, kMoveDismissals, kMoveFollows}) {
    if (auto ok = impl_->queries[copy].bind(1, *from_key).bind(2, *to_key).run(); !ok)
      return tl::unexpected(ok.error());
  }
  std::int64_t rows = 0;
  for (const StatementId drop : {kDropInteractions, kDropDismissals, kDropFollows}) {
    if (auto ok = impl_->queries[drop].bind(1, *from_key).run(); !ok) return tl::unexpected(ok.error());
    rows += impl_->db.changes();
  }
  if (auto ok = impl_->queries[kDropReader].bind(1, *from_key).run(); !ok) return tl::unexpected(ok.error());
  return rows;
}

Result<std::int64_t> ReaderRows::erase(const std::vector<ReaderId>& readers) {
  std::int64_t rows = 0;
  bool any = false;
  for (const ReaderId& reader : readers) {
    FRESHET_TRY(key, impl_->reader_key(reader, false));
    if (*key == 0) continue;
    any = true;
    for (const StatementId drop : {kDropInteractions, kDropDismissals, kDropFollows, kDropReader}) {
      if (auto ok = impl_->queries[drop].bind(1, *key).run(); !ok) return tl::unexpected(ok.error());
      rows += impl_->db.changes();
    }
  }
  if (any) {
    if (auto ok = impl_->db.execute(kRewriteReaders); !ok) return tl::unexpected(ok.error());
  }
  return rows;
}

// --- Reading

Result<void> ReaderRows::for_each_interaction(const EachInteraction& each) {
  return read_interactions(impl_->queries[kAllInteractions], each);
}

Result<void> ReaderRows::for_each_dismissal(const EachDismissal& each) {
  return read_dismissals(impl_->queries[kAllDismissals], each);
}

Result<void> ReaderRows::for_each_follow(const EachFollow& each) {
  return read_follows(impl_->queries[kAllFollows], each);
}

Result<std::vector<readers::ReaderEvent>> ReaderRows::interactions_of(const ReaderId& reader,
                                                                      std::int64_t offset,
                                                                      std::int64_t limit) {
  std::vector<readers::ReaderEvent> out;
  PreparedStatement& query = impl_->queries[kInteractionsOf];
  query.bind(1, reader.view()).bind(2, limit).bind(3, offset);
  auto read = read_interactions(query, [&](const readers::ReaderEvent& event) {
    out.push_back(event);
    return Result<void>();
  });
  if (!read) return tl::unexpected(read.error());
  return out;
}

Result<std::vector<readers::DismissalRecord>> ReaderRows::dismissals_of(const ReaderId& reader,
                                                                        std::int64_t limit) {
  std::vector<readers::DismissalRecord> out;
  PreparedStatement& query = impl_->queries[kDismissalsOf];
  query.bind(1, reader.view()).bind(2, limit);
  auto read = read_dismissals(query, [&](const readers::DismissalRecord& each) {
    out.push_back(each);
    return Result<void>();
  });
  if (!read) return tl::unexpected(read.error());
  return out;
}

Result<std::vector<readers::Follow>> ReaderRows::follows_of(const ReaderId& reader, std::int64_t limit) {
  std::vector<readers::Follow> out;
  PreparedStatement& query = impl_->queries[kFollowsOf];
  query.bind(1, reader.view()).bind(2, limit);
  auto read = read_follows(query, [&](const readers::Follow& each) {
    out.push_back(each);
    return Result<void>();
  });
  if (!read) return tl::unexpected(read.error());
  return out;
}

Result<std::int64_t> ReaderRows::count_interactions() {
  return impl_->db.integer("SELECT count(*) FROM interactions");
}

}  // namespace freshet::database
