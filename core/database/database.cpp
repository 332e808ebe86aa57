#include "core/database/database.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "core/base/hex.h"
#include "core/database/database_schema.h"
#include "core/database/sqlite.h"
#include "core/redis/fields.h"

namespace freshet::database {
namespace {

enum Statement : std::size_t {
  kFind,
  kInsert,
  kUpdate,
  kDelete,
  kAddTag,
  kDropTags,
  kTags,
  kAll,
  kIds,
  kSetMeta,
  kGetMeta,
  kMetaOf,
  kStatements
};
constexpr std::array<std::string_view, kStatements> kSql{
    "SELECT key FROM items WHERE id = ?1",
    "INSERT INTO items (id, title, text, author, url, published_at, update_time, hidden)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    "UPDATE items SET title = ?2, text = ?3, author = ?4, url = ?5, published_at = ?6, update_time = ?7,"
    " hidden = ?8 WHERE id = ?1",
    "DELETE FROM items WHERE id = ?1",
    "INSERT INTO item_tags (item, place, tag) VALUES (?1, ?2, ?3)",
    "DELETE FROM item_tags WHERE item = ?1",
    "SELECT tag FROM item_tags WHERE item = ?1 ORDER BY place",
    "SELECT key, id, title, text, author, url, published_at, update_time, hidden FROM items ORDER BY id",
    "SELECT id FROM items ORDER BY id",
    "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    "SELECT value FROM meta WHERE name = ?1",
    "SELECT name, value FROM meta WHERE name >= ?1 AND name < ?2"};
constexpr std::string_view kLastEntry = "last_entry";  // of a group of a cluster: with ':' and its tag
constexpr std::string_view kLastEntryEnd = "last_entry;";
constexpr std::string_view kIdentity = "identity";
constexpr std::string_view kToken = "token";
constexpr std::string_view kErased = "erased:";     // before a reader's name; the value: unix seconds
constexpr std::string_view kErasedEnd = "erased;";  // ';' follows ':'

std::string last_entry_of(std::string_view stream) {
  return std::string(kLastEntry).append(stream.empty() ? "" : ":").append(stream);
}

// Which file stands at a path.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};
Identity identity_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

}  // namespace

struct Database::State {
  State(std::string at, Sqlite opened) : path(std::move(at)), db(std::in_place, std::move(opened)) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::string log_path() const { return path + "-wal"; }
  Result<void> put_tags(std::int64_t key, const items::Item& item);
  Result<items::Item> row();  // of kAll
  Result<std::string> meta(std::string_view name);
  Result<void> put_meta(std::string_view name, std::string_view value);
  Result<void> know_identity(bool may_write);

  const std::string path;
  std::optional<Sqlite> db;
  std::array<Query, kStatements> queries;
  std::optional<ReaderRows> readers;
  Identity log;            // of the write-ahead log
  std::int64_t items = 0;  // as of the last commit
  std::int64_t added = 0;  // since
  std::string identity;
  std::uint64_t token = 0;  // of write_as()
};

// Closing folds the log into the database and removes it, unless the database is no longer at its
// path: then the log stays, and SQLite would replay it into whatever is put there next.
Database::State::~State() {
  const bool left = db->moved() && log != Identity{} && identity_of(log_path()) == log;
  queries = {};
  readers.reset();
  db.reset();
  if (!left) return;
  unlink(log_path().c_str());
  unlink((path + "-shm").c_str());
}

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(const std::string& path, Mode mode) {
  const int flags = mode == Mode::kWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  FRESHET_TRY(db, Sqlite::open(path, flags | SQLITE_OPEN_NOMUTEX));
  // Before anything is read: that would make a -shm file with the permissions which the file has
  // now, and with it the database would stay read-only when they are given back.
  if (mode == Mode::kWrite && db->read_only())
    return fail(ErrorCode::kUnavailable, "database_readonly", {}, "the file cannot be written");
  auto state = std::make_unique<State>(path, std::move(*db));
  if (auto ok = prepare_file(*state->db, mode == Mode::kWrite); !ok) return tl::unexpected(ok.error());
  for (std::size_t i = 0; i < kStatements; ++i) {
    FRESHET_TRY(query, state->db->prepare(kSql[i]));
    state->queries[i] = std::move(*query);
  }
  FRESHET_TRY(readers, ReaderRows::create(*state->db));
  state->readers = std::move(*readers);
  FRESHET_TRY(items, state->db->integer("SELECT count(*) FROM items"));
  state->items = *items;
  if (auto ok = state->know_identity(mode == Mode::kWrite); !ok) return tl::unexpected(ok.error());
  state->log = identity_of(state->log_path());
  return std::unique_ptr<Database>(new Database(std::move(state)));
}

// --- Whose it is

Result<void> Database::State::know_identity(bool may_write) {
  FRESHET_TRY(known, meta(kIdentity));
  identity = std::move(*known);
  if (!identity.empty() || !may_write) return {};
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return fail(ErrorCode::kInternal, "database_error", {}, "no random bytes");
  identity = hex(random);
  return put_meta(kIdentity, identity);
}

const std::string& Database::identity() const { return state_->identity; }

Result<std::uint64_t> Database::last_token() {
  FRESHET_TRY(text, state_->meta(kToken));
  return redis::parse_or_zero<std::uint64_t>(*text);
}

Result<void> Database::expect_ours() {
  FRESHET_TRY(last, last_token());
  if (*last == state_->token) return {};
  return fail(ErrorCode::kUnavailable, "lease_lost", {}, "another recorder writes the database");
}

Result<void> Database::write_as(std::uint64_t token) {
  state_->token = 0;
  if (auto ok = begin(); !ok) return ok;
  state_->token = token;
  const auto last = last_token();
  Result<void> noted = last ? Result<void>() : tl::unexpected(last.error());
  if (last && *last > token) noted = expect_ours();
  if (noted) noted = state_->put_meta(kToken, std::to_string(token));
  if (noted) noted = commit();
  if (!noted) rollback();
  return noted;
}

// --- Transactions

Result<void> Database::begin() {
  state_->added = 0;
  auto begun = state_->db->execute("BEGIN IMMEDIATE");
  if (!begun || state_->token == 0) return begun;
  auto ours = expect_ours();
  if (!ours) rollback();
  return ours;
}

Result<void> Database::commit() {
  if (auto ok = state_->db->execute("COMMIT"); !ok) return ok;
  state_->items += std::exchange(state_->added, 0);
  return {};
}

void Database::rollback() {
  state_->added = 0;
  // Some errors have rolled back already; any other failure shows in the next begin().
  if (state_->db->in_transaction()) (void)state_->db->execute("ROLLBACK");
}

// Its answer is a row: 1 when somebody still reads what the log holds.
Result<void> Database::truncate_log() {
  FRESHET_TRY(busy, state_->db->integer("PRAGMA wal_checkpoint(TRUNCATE)"));
  if (*busy != 0) return fail(ErrorCode::kUnavailable, "database_locked", {}, "somebody reads the log");
  return {};
}

// --- Writing

Result<void> Database::put_item(const items::Item& item) {
  State& s = *state_;
  Query& find = s.queries[kFind];
  FRESHET_TRY(found, find.bind(1, item.id.view()).step());
  const std::int64_t old_key = *found ? find.integer(0) : 0;
  find.done();

  std::optional<std::int64_t> updated;
  if (item.update_time) updated = unix_s(*item.update_time);
  Query& write = s.queries[*found ? kUpdate : kInsert];
  write.bind(1, item.id.view()).bind(2, item.title).bind(3, item.text).bind(4, item.author).bind(5, item.url);
  write.bind(6, unix_s(item.published_at)).bind(7, updated).bind(8, std::int64_t{item.hidden});
  if (auto ok = write.run(); !ok) return ok;
  if (*found) {
    if (auto ok = s.queries[kDropTags].bind(1, old_key).run(); !ok) return ok;
  } else {
    ++s.added;
  }
  return s.put_tags(*found ? old_key : s.db->last_row(), item);
}

Result<void> Database::State::put_tags(std::int64_t key, const items::Item& item) {
  std::int64_t place = 0;
  for (const TagName& tag : item.tags) {
    if (auto ok = queries[kAddTag].bind(1, key).bind(2, place++).bind(3, tag.view()).run(); !ok) return ok;
  }
  return {};
}

Result<void> Database::remove_item(const ItemId& id) {
  if (auto ok = state_->queries[kDelete].bind(1, id.view()).run(); !ok) return ok;
  state_->added -= state_->db->changes();
  return {};
}

Result<void> Database::State::put_meta(std::string_view name, std::string_view value) {
  return queries[kSetMeta].bind(1, name).bind(2, value).run();
}

Result<void> Database::put_last_entry(std::string_view stream, std::string_view entry) {
  return state_->put_meta(last_entry_of(stream), entry);
}

Result<void> Database::put_erasure(std::string_view reader, UnixSeconds at) {
  return state_->put_meta(std::string(kErased) + std::string(reader), std::to_string(unix_s(at)));
}

// --- Reading

Result<std::vector<Database::Erased>> Database::erased_since(UnixSeconds since) {
  Query& query = state_->queries[kMetaOf];
  query.bind(1, kErased).bind(2, kErasedEnd);
  std::vector<Erased> out;
  for (;;) {
    FRESHET_TRY(more, query.step());
    if (!*more) break;
    const UnixSeconds at{seconds{redis::parse_or_zero<std::int64_t>(query.text(1))}};
    if (at >= since) out.push_back({std::string(query.text(0).substr(kErased.size())), at});
  }
  query.done();
  return out;
}

Result<std::string> Database::State::meta(std::string_view name) {
  Query& query = queries[kGetMeta];
  FRESHET_TRY(found, query.bind(1, name).step());
  std::string out(*found ? query.text(0) : std::string_view());
  query.done();
  return out;
}

Result<std::string> Database::last_entry(std::string_view stream) {
  return state_->meta(last_entry_of(stream));
}

Result<bool> Database::has_recorded() {
  Query& query = state_->queries[kMetaOf];
  const auto found = query.bind(1, kLastEntry).bind(2, kLastEntryEnd).step();
  query.done();
  return found;
}

Result<items::Item> Database::State::row() {
  Query& all = queries[kAll];
  items::Item item;
  item.id = ItemId::trusted(std::string(all.text(1)));
  item.title = std::string(all.text(2));
  item.text = std::string(all.text(3));
  item.author = std::string(all.text(4));
  item.url = std::string(all.text(5));
  item.published_at = UnixSeconds{seconds{all.integer(6)}};
  if (!all.is_null(7)) item.update_time = UnixSeconds{seconds{all.integer(7)}};
  item.hidden = all.integer(8) != 0;
  Query& tags = queries[kTags];
  tags.bind(1, all.integer(0));
  for (;;) {
    FRESHET_TRY(more, tags.step());
    if (!*more) break;
    item.tags.push_back(TagName::trusted(std::string(tags.text(0))));
  }
  tags.done();
  return item;
}

Result<void> Database::for_each_item(const std::function<Result<void>(const items::Item&)>& each) {
  State& s = *state_;
  // One snapshot for items and tags.
  const bool own = !s.db->in_transaction();
  if (own) {
    if (auto ok = s.db->execute("BEGIN"); !ok) return ok;
  }
  Result<void> outcome;
  while (outcome) {
    const auto more = s.queries[kAll].step();
    if (!more) outcome = tl::unexpected(more.error());
    if (!more || !*more) break;
    const auto item = s.row();
    outcome = item ? each(*item) : Result<void>(tl::unexpected(item.error()));
  }
  s.queries[kAll].done();
  if (own) rollback();  // nothing was written
  return outcome;
}

Result<void> Database::for_each_id(const std::function<Result<void>(std::string_view)>& each) {
  Query& ids = state_->queries[kIds];
  Result<void> outcome;
  while (outcome) {
    const auto more = ids.step();
    if (!more) outcome = tl::unexpected(more.error());
    if (!more || !*more) break;
    outcome = each(ids.text(0));
  }
  ids.done();
  return outcome;
}

ReaderRows& Database::readers() { return *state_->readers; }

std::int64_t Database::count() const { return state_->items; }

Result<std::int64_t> Database::count_shown() {
  return state_->db->integer("SELECT count(*) FROM items WHERE hidden = 0");
}

bool Database::replaced() const {
  return state_->db->moved() || identity_of(state_->log_path()) != state_->log;
}

}  // namespace freshet::database
