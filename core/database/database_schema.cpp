#include "core/database/database_schema.h"

#include <array>
#include <string>

#include "core/base/utf8.h"

namespace freshet::database {
namespace {

// Step i migrates version i to i + 1; user_version counts the completed steps. To change the
// schema, append a step: released ones never change.
constexpr std::array kMigrations{
    // 1: items
    R"sql(
CREATE TABLE items (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  published_at INTEGER NOT NULL,  -- unix seconds, as is update_time
  update_time INTEGER,
  hidden INTEGER NOT NULL,
  title TEXT NOT NULL,
  author TEXT NOT NULL,
  url TEXT NOT NULL,
  text TEXT NOT NULL  -- last: what is long is not read when only the others are
) STRICT;
CREATE TABLE item_tags (
  item INTEGER NOT NULL REFERENCES items (key) ON DELETE CASCADE,
  place INTEGER NOT NULL,  -- from 0: the order they were given in
  tag TEXT NOT NULL,
  PRIMARY KEY (item, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX item_tags_by_tag ON item_tags (tag, item);
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
)sql",
    // 2: readers. Only `readers` contains a reader's id, so that database_readers.h can erase it.
    // Items may be unknown, so there is no foreign key to them.
    R"sql(
CREATE TABLE readers (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX readers_by_id ON readers (id);
CREATE TABLE interactions (
  reader INTEGER NOT NULL,  -- readers.key, as in dismissals
  at INTEGER NOT NULL,      -- unix seconds
  item TEXT NOT NULL,
  kind TEXT NOT NULL,  -- a letter of rank::kInteractionKinds
  PRIMARY KEY (reader, at, item, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE dismissals (
  reader INTEGER NOT NULL,
  item TEXT NOT NULL,
  at INTEGER NOT NULL,
  reason TEXT NOT NULL,  -- "": none was given
  PRIMARY KEY (reader, item)
) STRICT, WITHOUT ROWID;
)sql",
    // 3: follows. What authors publish is not stored.
    R"sql(
CREATE TABLE follows (
  reader INTEGER NOT NULL,  -- readers.key
  author TEXT NOT NULL,
  at INTEGER NOT NULL,  -- unix seconds
  PRIMARY KEY (reader, author)
) STRICT, WITHOUT ROWID;
)sql",
    // 4: more of an item ('' and NULL: absent); ids in Normalization Form C, and authors who are
    // followed by their keys. Of two items that get the same id, the one that had it stays; of two
    // readers, the rows of both.
    R"sql(
ALTER TABLE items ADD COLUMN section TEXT NOT NULL DEFAULT '';
ALTER TABLE items ADD COLUMN language TEXT NOT NULL DEFAULT '';
ALTER TABLE items ADD COLUMN story TEXT NOT NULL DEFAULT '';
ALTER TABLE items ADD COLUMN text_format TEXT NOT NULL DEFAULT 'plain';
ALTER TABLE items ADD COLUMN expires_at INTEGER;  -- unix seconds
ALTER TABLE items ADD COLUMN weight REAL;
ALTER TABLE items ADD COLUMN author_id TEXT NOT NULL DEFAULT '';  -- '': the author's name
UPDATE OR IGNORE items SET id = nfc(id) WHERE nfc(id) <> id;
DELETE FROM items WHERE nfc(id) <> id;
UPDATE OR REPLACE interactions SET item = nfc(item) WHERE nfc(item) <> item;
UPDATE OR REPLACE dismissals SET item = nfc(item) WHERE nfc(item) <> item;
UPDATE OR REPLACE follows SET author = fold(author) WHERE fold(author) <> author;
UPDATE OR IGNORE readers SET id = nfc(id) WHERE nfc(id) <> id;
CREATE TEMP TABLE same_reader AS SELECT other.key AS key, reader.key AS kept
  FROM readers AS other JOIN readers AS reader ON reader.id = nfc(other.id) WHERE nfc(other.id) <> other.id;
UPDATE OR REPLACE interactions SET reader = (SELECT kept FROM same_reader WHERE key = reader)
  WHERE reader IN (SELECT key FROM same_reader);
UPDATE OR REPLACE dismissals SET reader = (SELECT kept FROM same_reader WHERE key = reader)
  WHERE reader IN (SELECT key FROM same_reader);
UPDATE OR REPLACE follows SET reader = (SELECT kept FROM same_reader WHERE key = reader)
  WHERE reader IN (SELECT key FROM same_reader);
DELETE FROM readers WHERE key IN (SELECT key FROM same_reader);
DROP TABLE same_reader;
)sql",
    // 5: how often items were viewed, without readers: the past that `freshetctl tune` learns from.
    R"sql(
CREATE TABLE view_counts (
  bucket INTEGER NOT NULL,   -- unix seconds of its start
  seconds INTEGER NOT NULL,  -- its length
  item TEXT NOT NULL,        -- may be unknown
  views INTEGER NOT NULL,
  PRIMARY KEY (bucket, item)
) STRICT, WITHOUT ROWID;
)sql",
    // 6: how often an item was read after another one, without readers. Items may be unknown.
    R"sql(
CREATE TABLE covisits (
  day INTEGER NOT NULL,  -- unix seconds of its start
  item TEXT NOT NULL,
  next TEXT NOT NULL,    -- read after `item`
  count INTEGER NOT NULL,
  recent REAL NOT NULL,  -- log2 of the sum in which each halves every hour, plus unix hours
  PRIMARY KEY (day, item, next)
) STRICT, WITHOUT ROWID;
)sql"};
constexpr auto kVersion = static_cast<std::int64_t>(kMigrations.size());

// A short busy timeout, because a process that waits for a lock cannot be stopped; the recorder
// retries anyway. The size limit truncates the log after a long-running reader has let it grow.
constexpr const char* kPragmas = R"sql(
PRAGMA busy_timeout = 250;
PRAGMA foreign_keys = ON;
PRAGMA secure_delete = ON;
PRAGMA synchronous = FULL;
PRAGMA journal_size_limit = 67108864;
)sql";

Result<void> migrate(SqliteConnection& db, std::int64_t version) {
  if (version == kVersion) return {};
  if (auto ok = db.add_function("nfc", utf8::to_nfc); !ok) return ok;
  if (auto ok = db.add_function("fold", utf8::fold); !ok) return ok;
  if (auto ok = db.execute("BEGIN IMMEDIATE"); !ok) return ok;
  for (auto step = static_cast<std::size_t>(version); step < kMigrations.size(); ++step) {
    if (auto ok = db.execute(kMigrations[step]); !ok) return ok;
  }
  if (auto ok = db.execute(("PRAGMA user_version = " + std::to_string(kVersion)).c_str()); !ok) return ok;
  return db.execute("COMMIT");
}

}  // namespace

Result<void> check_version(std::int64_t version) {
  if (version <= kVersion) return {};
  return fail(ErrorCode::kUnavailable, "database_newer", {},
              "schema version " + std::to_string(version) +
                  ", written by a later version of Freshet; this one supports versions up to " +
                  std::to_string(kVersion));
}

// The WAL mode is stored in the file; a new file gets it before its tables.
Result<void> prepare_file(SqliteConnection& db, bool may_write) {
  if (auto ok = db.execute(kPragmas); !ok) return ok;
  FRESHET_TRY(version, db.integer("PRAGMA user_version"));
  if (auto ok = check_version(*version); !ok) return ok;
  if (!may_write) {
    if (*version == kVersion) return {};
    return fail(ErrorCode::kUnavailable, "database_absent", {},
                "not yet migrated by this version's recorder");
  }
  if (auto ok = db.execute("PRAGMA journal_mode = WAL"); !ok) return ok;
  return migrate(db, *version);
}

}  // namespace freshet::database
