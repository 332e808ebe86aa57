#include "core/database/database_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/hex.h"
#include "core/base/utf8.h"
#include "core/database/database_schema.h"
#include "core/database/sqlite.h"

namespace freshet::database {
namespace {

// The values count up, so that the oldest ids are known whatever the clock says.
constexpr std::string_view kAddBackupId =
    "INSERT INTO meta (name, value) SELECT 'backup:' || lower(hex(randomblob(16))),"
    " CAST(coalesce(max(CAST(value AS INTEGER)), 0) + 1 AS TEXT) FROM meta"
    " WHERE name >= 'backup:' AND name < 'backup;' RETURNING substr(name, 8)";
constexpr std::string_view kDropOldestBackupIds =
    "DELETE FROM meta WHERE name IN (SELECT name FROM meta WHERE name >= 'backup:' AND name < 'backup;'"
    " ORDER BY CAST(value AS INTEGER) DESC LIMIT -1 OFFSET ?1)";

tl::unexpected<Error> corrupt(std::string what) {
  return fail(ErrorCode::kUnavailable, "database_corrupt", {}, std::move(what));
}

// VACUUM INTO does not sync the file.
Result<void> sync_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (synced) return {};
  return fail(ErrorCode::kUnavailable, "database_io", {}, path + ": " + std::strerror(error));
}

// An SQLite URI for the file. Immutable: no locks, and no -wal or -shm file next to it.
std::string immutable_uri(const std::string& path) {
  std::string out = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      append_hex(out += '%', static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "?immutable=1";
}

Result<void> check_integrity(SqliteConnection& db) {
  FRESHET_TRY(check, db.prepare("PRAGMA integrity_check(1)"));
  FRESHET_TRY(row, check->step());
  if (!*row || check->text(0) != "ok") return corrupt(std::string(check->text(0)));
  return {};
}

}  // namespace

Result<void> copy_database(const std::string& from, const std::string& to) {
  FRESHET_TRY(db, SqliteConnection::open(from, SQLITE_OPEN_READONLY));
  // Readers wait only while a commit finishes.
  if (auto ok = db->execute("PRAGMA busy_timeout = 10000"); !ok) return ok;
  FRESHET_TRY(copy, db->prepare("VACUUM INTO ?"));
  copy->bind(1, std::string_view(to));
  if (auto ok = copy->run(); !ok) return ok;
  return sync_file(to);
}

Result<std::string> add_backup_id(const std::string& path) {
  FRESHET_TRY(db, SqliteConnection::open(path, SQLITE_OPEN_READWRITE));
  // Checked first, for the reason given in Database::open().
  if (db->is_read_only())
    return fail(ErrorCode::kUnavailable, "database_readonly", {}, "the file is not writable");
  if (auto ok = db->execute("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE"); !ok)
    return tl::unexpected(ok.error());
  FRESHET_TRY(add, db->prepare(kAddBackupId));
  if (const auto row = add->step(); !row) return tl::unexpected(row.error());
  std::string id(add->text(0));
  add->reset();
  FRESHET_TRY(prune, db->prepare(kDropOldestBackupIds));
  if (auto ok = prune->bind(1, kMaxBackupIds).run(); !ok) return tl::unexpected(ok.error());
  if (auto ok = db->execute("COMMIT"); !ok) return tl::unexpected(ok.error());
  return id;
}

Result<DatabaseSummary> verify_database(const std::string& path) {
  FRESHET_TRY(db, SqliteConnection::open(immutable_uri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
  FRESHET_TRY(version, db->integer("PRAGMA user_version"));
  DatabaseSummary summary{*version, 0};
  if (auto ok = check_version(*version); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_integrity(*db); !ok) return tl::unexpected(ok.error());
  if (summary.schema_version == 0) return summary;
  const auto items = db->integer("SELECT count(*) FROM items");
  if (!items) return corrupt(items.error().detail);
  summary.items = *items;
  return summary;
}

Result<std::vector<std::string>> unnormalized_readers(const std::string& path) {
  std::vector<std::string> out;
  FRESHET_TRY(db, SqliteConnection::open(path, SQLITE_OPEN_READONLY));
  FRESHET_TRY(has_readers, db->integer("SELECT count(*) FROM sqlite_master WHERE name = 'readers'"));
  if (*has_readers == 0) return out;
  FRESHET_TRY(row, db->prepare("SELECT id FROM readers"));
  for (;;) {
    FRESHET_TRY(more, row->step());
    if (!*more) return out;
    std::string id(row->text(0));
    if (utf8::to_nfc(id) != id) out.push_back(std::move(id));
  }
}

// A connection to a WAL database holds a shared lock for as long as it lives, so an exclusive lock
// fails if there is another connection.
bool database_in_use(const std::string& path) {
  auto db = SqliteConnection::open(path, SQLITE_OPEN_READWRITE);
  if (!db) return false;
  if (!db->execute("PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE")) return false;
  const auto lock_attempt = db->execute("BEGIN EXCLUSIVE; ROLLBACK");
  return !lock_attempt && lock_attempt.error().reason == "database_locked";
}

}  // namespace freshet::database
