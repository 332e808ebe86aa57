#include "core/database/database_readers.h"

#include <array>
#include <string_view>

#include "core/database/sqlite.h"

namespace freshet::database {
namespace {

enum Statement : std::size_t {
  kFindReader,
  kAddReader,
  kAddInteraction,
  kPutDismissal,
  kRemoveDismissal,
  kPutFollow,
  kRemoveFollow,
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
  kStatements
};
constexpr std::array<std::string_view, kStatements> kSql{
    "SELECT key FROM readers WHERE id = ?1",
    "INSERT INTO readers (id) VALUES (?1)",
    "INSERT OR IGNORE INTO interactions (reader, at, item, kind) VALUES (?1, ?2, ?3, ?4)",
    "INSERT INTO dismissals (reader, item, at, reason) VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT (reader, item) DO UPDATE SET at = excluded.at, reason = excluded.reason"
    " WHERE excluded.at >= dismissals.at",
    "DELETE FROM dismissals WHERE reader = ?1 AND item = ?2 AND at <= ?3",
    "INSERT INTO follows (reader, author, at) VALUES (?1, ?2, ?3)"
    " ON CONFLICT (reader, author) DO UPDATE SET at = excluded.at",
    "DELETE FROM follows WHERE reader = ?1 AND author = ?2",
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

// The pages of the old table and index are freed, and by that overwritten. Keys stay. The new index
// is filled when the table is full, in its own order.
constexpr const char* kRewriteReaders = R"sql(
CREATE TABLE readers_anew (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL
) STRICT;
INSERT INTO readers_anew (key, id) SELECT key, id FROM readers ORDER BY key;
DROP TABLE readers;
ALTER TABLE readers_anew RENAME TO readers;
CREATE UNIQUE INDEX readers_by_id ON readers (id);
)sql";

UnixSeconds at_second(std::int64_t second) { return UnixSeconds{seconds{second}}; }

// Steps through the rows of `query`; done with it afterwards, whatever happens.
Result<void> each_row(Query& query, const std::function<Result<void>(const Query&)>& each) {
  Result<void> outcome;
  while (outcome) {
    const auto more = query.step();
    if (!more) outcome = tl::unexpected(more.error());
    if (!more || !*more) break;
    outcome = each(query);
  }
  query.done();
  return outcome;
}

Result<void> each_event(Query& query, const ReaderRows::EachInteraction& each) {
  readers::ReaderEvent event;
  return each_row(query, [&](const Query& row) -> Result<void> {
    const auto kind = row.text(2).size() == 1 ? readers::interaction_of_letter(row.text(2)[0]) : std::nullopt;
    if (!kind) return {};  // of a later version
    if (event.reader.view() != row.text(0)) event.reader = ReaderId::trusted(std::string(row.text(0)));
    event.item = ItemId::trusted(std::string(row.text(1)));
    event.kind = *kind;
    event.at = at_second(row.integer(3));
    return each(event);
  });
}

Result<void> each_dismissed(Query& query, const ReaderRows::EachDismissal& each) {
  return each_row(query, [&](const Query& row) {
    readers::DismissedAt out;
    out.dismissal.reader = ReaderId::trusted(std::string(row.text(0)));
    out.dismissal.item = ItemId::trusted(std::string(row.text(1)));
    out.at = at_second(row.integer(2));
    out.dismissal.reason = std::string(row.text(3));
    return each(out);
  });
}

Result<void> each_followed(Query& query, const ReaderRows::EachFollow& each) {
  return each_row(query, [&](const Query& row) {
    return each({ReaderId::trusted(std::string(row.text(0))), AuthorId::trusted(std::string(row.text(1))),
                 at_second(row.integer(2))});
  });
}

}  // namespace

struct ReaderRows::State {
  explicit State(Sqlite& connection) : db(connection) {}
  // 0: unknown, and not to be added.
  Result<std::int64_t> key_of(const ReaderId& reader, bool add);

  Sqlite& db;
  std::array<Query, kStatements> queries;
};

ReaderRows::ReaderRows(std::unique_ptr<State> state) : state_(std::move(state)) {}
ReaderRows::ReaderRows(ReaderRows&&) noexcept = default;
ReaderRows& ReaderRows::operator=(ReaderRows&&) noexcept = default;
ReaderRows::~ReaderRows() = default;

Result<ReaderRows> ReaderRows::create(Sqlite& db) {
  auto state = std::make_unique<State>(db);
  for (std::size_t i = 0; i < kStatements; ++i) {
    FRESHET_TRY(query, db.prepare(kSql[i]));
    state->queries[i] = std::move(*query);
  }
  return ReaderRows(std::move(state));
}

// --- Writing

Result<std::int64_t> ReaderRows::State::key_of(const ReaderId& reader, bool add) {
  Query& find = queries[kFindReader];
  FRESHET_TRY(found, find.bind(1, reader.view()).step());
  const std::int64_t key = *found ? find.integer(0) : 0;
  find.done();
  if (key != 0 || !add) return key;
  if (auto ok = queries[kAddReader].bind(1, reader.view()).run(); !ok) return tl::unexpected(ok.error());
  return db.last_row();
}

Result<void> ReaderRows::put_interaction(const readers::ReaderEvent& event) {
  FRESHET_TRY(key, state_->key_of(event.reader, true));
  const char letter = readers::kind_of(event.kind).letter;
  Query& add = state_->queries[kAddInteraction];
  add.bind(1, *key)
      .bind(2, unix_s(event.at))
      .bind(3, event.item.view())
      .bind(4, std::string_view(&letter, 1));
  return add.run();
}

Result<void> ReaderRows::put_dismissal(const readers::Dismissal& dismissal, UnixSeconds at) {
  FRESHET_TRY(key, state_->key_of(dismissal.reader, true));
  Query& put = state_->queries[kPutDismissal];
  put.bind(1, *key).bind(2, dismissal.item.view()).bind(3, unix_s(at)).bind(4, dismissal.reason);
  return put.run();
}

Result<void> ReaderRows::remove_dismissal(const ReaderId& reader, const ItemId& item, UnixSeconds at) {
  FRESHET_TRY(key, state_->key_of(reader, false));
  return state_->queries[kRemoveDismissal].bind(1, *key).bind(2, item.view()).bind(3, unix_s(at)).run();
}

Result<void> ReaderRows::put_follow(const readers::Follow& follow) {
  FRESHET_TRY(key, state_->key_of(follow.reader, true));
  Query& put = state_->queries[kPutFollow];
  return put.bind(1, *key).bind(2, follow.author.view()).bind(3, unix_s(follow.at)).run();
}

Result<void> ReaderRows::remove_follow(const ReaderId& reader, const AuthorId& author) {
  FRESHET_TRY(key, state_->key_of(reader, false));
  return state_->queries[kRemoveFollow].bind(1, *key).bind(2, author.view()).run();
}

Result<std::int64_t> ReaderRows::erase(const std::vector<ReaderId>& readers) {
  std::int64_t rows = 0;
  bool any = false;
  for (const ReaderId& reader : readers) {
    FRESHET_TRY(key, state_->key_of(reader, false));
    if (*key == 0) continue;
    any = true;
    for (const Statement drop : {kDropInteractions, kDropDismissals, kDropFollows, kDropReader}) {
      if (auto ok = state_->queries[drop].bind(1, *key).run(); !ok) return tl::unexpected(ok.error());
      rows += state_->db.changes();
    }
  }
  if (any) {
    if (auto ok = state_->db.execute(kRewriteReaders); !ok) return tl::unexpected(ok.error());
  }
  return rows;
}

// --- Reading

Result<void> ReaderRows::for_each_interaction(const EachInteraction& each) {
  return each_event(state_->queries[kAllInteractions], each);
}

Result<void> ReaderRows::for_each_dismissal(const EachDismissal& each) {
  return each_dismissed(state_->queries[kAllDismissals], each);
}

Result<void> ReaderRows::for_each_follow(const EachFollow& each) {
  return each_followed(state_->queries[kAllFollows], each);
}

Result<std::vector<readers::ReaderEvent>> ReaderRows::interactions_of(const ReaderId& reader,
                                                                      std::int64_t from, std::int64_t most) {
  std::vector<readers::ReaderEvent> out;
  Query& query = state_->queries[kInteractionsOf];
  query.bind(1, reader.view()).bind(2, most).bind(3, from);
  auto read = each_event(query, [&](const readers::ReaderEvent& event) {
    out.push_back(event);
    return Result<void>();
  });
  if (!read) return tl::unexpected(read.error());
  return out;
}

Result<std::vector<readers::DismissedAt>> ReaderRows::dismissals_of(const ReaderId& reader,
                                                                    std::int64_t most) {
  std::vector<readers::DismissedAt> out;
  Query& query = state_->queries[kDismissalsOf];
  query.bind(1, reader.view()).bind(2, most);
  auto read = each_dismissed(query, [&](const readers::DismissedAt& each) {
    out.push_back(each);
    return Result<void>();
  });
  if (!read) return tl::unexpected(read.error());
  return out;
}

Result<std::vector<readers::Follow>> ReaderRows::follows_of(const ReaderId& reader, std::int64_t most) {
  std::vector<readers::Follow> out;
  Query& query = state_->queries[kFollowsOf];
  query.bind(1, reader.view()).bind(2, most);
  auto read = each_followed(query, [&](const readers::Follow& each) {
    out.push_back(each);
    return Result<void>();
  });
  if (!read) return tl::unexpected(read.error());
  return out;
}

Result<std::int64_t> ReaderRows::count_interactions() {
  return state_->db.integer("SELECT count(*) FROM interactions");
}

}  // namespace freshet::database
