#include "core/database/database.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/hex.h"
#include "core/database/database_schema.h"
#include "core/database/sqlite.h"
#include "core/redis/fields.h"

namespace freshet::database {
namespace {

enum StatementId : std::size_t {
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
  kDropMeta,
  kAddViews,
  kAddCovisits,
  kCovisits,
  kStatementCount
};
constexpr std::array<std::string_view, kStatementCount> kSql{
    "SELECT key FROM items WHERE id = ?1",
    "INSERT INTO items (id, title, text, author, url, published_at, update_time, hidden, section, language,"
    " story, text_format, expires_at, weight, author_id)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    "UPDATE items SET title = ?2, text = ?3, author = ?4, url = ?5, published_at = ?6, update_time = ?7,"
    " hidden = ?8, section = ?9, language = ?10, story = ?11, text_format = ?12, expires_at = ?13,"
    " weight = ?14, author_id = ?15 WHERE id = ?1",
    "DELETE FROM items WHERE id = ?1",
    "INSERT INTO item_tags (item, place, tag) VALUES (?1, ?2, ?3)",
    "DELETE FROM item_tags WHERE item = ?1",
    "SELECT tag FROM item_tags WHERE item = ?1 ORDER BY place",
    "SELECT key, id, title, text, author, url, published_at, update_time, hidden, section, language, story,"
    " text_format, expires_at, weight, author_id FROM items WHERE id > ?1 ORDER BY id LIMIT ?2",
    "SELECT id FROM items ORDER BY id",
    "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    "SELECT value FROM meta WHERE name = ?1",
    "SELECT name, value FROM meta WHERE name >= ?1 AND name < ?2",
    "DELETE FROM meta WHERE name = ?1",
    "INSERT INTO view_counts (bucket, seconds, item, views) VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT (bucket, item) DO UPDATE SET views = views + excluded.views",
    "INSERT INTO covisits (day, item, next, count, recent) VALUES (?1, ?2, ?3, ?4, ?5)"
    " ON CONFLICT (day, item, next) DO UPDATE SET count = count + excluded.count, recent ="
    " max(recent, excluded.recent) + log2(1 + pow(2, -abs(recent - excluded.recent)))",
    "SELECT next, count, recent FROM covisits WHERE day = ?1 AND item = ?2"};
// The statements of prune_view_counts(). The first bucket of an hour becomes the hour.
constexpr std::string_view kDeleteOldViews = "DELETE FROM view_counts WHERE bucket < ?1";
constexpr std::array<std::string_view, 3> kMergeViews{
    "INSERT INTO view_counts (bucket, seconds, item, views)"
    " SELECT bucket - bucket % 3600, 3600, item, sum(views) FROM view_counts"
    " WHERE bucket < ?1 AND seconds < 3600 AND bucket % 3600 <> 0 GROUP BY 1, 3"
    " ON CONFLICT (bucket, item) DO UPDATE SET views = views + excluded.views",
    "DELETE FROM view_counts WHERE bucket < ?1 AND seconds < 3600 AND bucket % 3600 <> 0",
    "UPDATE view_counts SET seconds = 3600 WHERE bucket < ?1 AND seconds < 3600"};
constexpr std::int64_t kDaySeconds = 86400;
constexpr std::string_view kLargeBuckets =
    "SELECT bucket FROM view_counts WHERE bucket < ?1 GROUP BY bucket HAVING count(*) > ?2";
constexpr std::string_view kDropLeastViewed =
    "DELETE FROM view_counts WHERE bucket = ?1 AND item NOT IN"
    " (SELECT item FROM view_counts WHERE bucket = ?1 ORDER BY views DESC, item LIMIT ?2)";
constexpr std::string_view kDeleteOldCovisits = "DELETE FROM covisits WHERE day < ?1";
constexpr std::string_view kDropLeastCovisited =
    "DELETE FROM covisits WHERE day = ?1 AND (item, next) IN (SELECT item, next FROM covisits WHERE day = ?1"
    " ORDER BY recent DESC, item, next LIMIT -1 OFFSET ?2)";
// The key of a cluster's partition has ':' and its tag appended.
constexpr std::string_view kLastEntryKey = "last_entry";
constexpr std::string_view kLastEntryKeyEnd = "last_entry;";
constexpr std::string_view kDatabaseIdKey = "identity";
constexpr std::string_view kFencingTokenKey = "token";
// Prefix of a reader's hash; the value is in Unix seconds.
constexpr std::string_view kErasurePrefix = "erased:";
constexpr std::string_view kErasurePrefixEnd = "erased;";  // ';' follows ':' in ASCII
// Prefix of the id of a backup; the value counts the backups (add_backup_id()).
constexpr std::string_view kBackupPrefix = "backup:";
constexpr std::string_view kBackupPrefixEnd = "backup;";
// Prefix of the hashes of the target and the source, with ':' in between; the value is in Unix
// seconds.
constexpr std::string_view kMergePrefix = "merged:";
constexpr std::string_view kMergePrefixEnd = "merged;";
// Statements of prune_merges().
constexpr std::string_view kDropErasedMerges =
    "DELETE FROM meta WHERE name >= 'merged:' AND name < 'merged;' AND EXISTS (SELECT 1 FROM meta AS erasure"
    " WHERE erasure.name = 'erased:' || substr(meta.name, 8 + instr(substr(meta.name, 8), ':'))"
    " AND CAST(erasure.value AS INTEGER) >= CAST(meta.value AS INTEGER))";
constexpr std::string_view kDropOldestMerges =
    "DELETE FROM meta WHERE name IN (SELECT name FROM meta WHERE name >= 'merged:' AND name < 'merged;'"
    " ORDER BY CAST(value AS INTEGER) DESC LIMIT -1 OFFSET ?1)";

std::string last_entry_key(std::string_view stream) {
  return std::string(kLastEntryKey).append(stream.empty() ? "" : ":").append(stream);
}

std::string merge_key(std::string_view to, std::string_view from) {
  return std::string(kMergePrefix).append(to).append(":").append(from);
}

std::string counted_entry_key(std::string_view stream) { return std::string("counted:").append(stream); }

// Identifies the file at a path.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity file_identity(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

}  // namespace

struct Database::Impl {
  Impl(std::string at, SqliteConnection opened) : path(std::move(at)), db(std::in_place, std::move(opened)) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string wal_path() const { return path + "-wal"; }
  Result<void> put_tags(std::int64_t key, const items::Item& item);
  Result<items::Item> current_item();  // the row that kAll is at
  Result<std::string> meta(std::string_view name);
  Result<void> put_meta(std::string_view name, std::string_view value);
  // With names >= `begin` and < `end`.
  Result<std::vector<Merge>> merges_between(std::string_view begin, std::string_view end);
  Result<void> load_or_create_id(bool may_write);

  const std::string path;
  std::optional<SqliteConnection> db;
  std::array<PreparedStatement, kStatementCount> queries;
  std::optional<ReaderRows> readers;
  FileIdentity wal_identity;     // the write-ahead log's file
  std::int64_t item_count = 0;   // as of the last commit
  std::int64_t items_added = 0;  // since the last commit; may be negative
  std::string database_id;
  std::uint64_t fencing_token = 0;  // set by set_fencing_token()
};

// Closing checkpoints and removes the write-ahead log, unless the database is no longer at its
// path. In that case SQLite leaves the log behind and would replay it into the file that is put
// there next, so it is deleted here.
Database::Impl::~Impl() {
  const bool orphaned_wal =
      db->file_moved() && wal_identity != FileIdentity{} && file_identity(wal_path()) == wal_identity;
  queries = {};
  readers.reset();
  db.reset();
  if (!orphaned_wal) return;
  unlink(wal_path().c_str());
  unlink((path + "-shm").c_str());
}

Database::Database(std::unique_ptr<Impl> state) : impl_(std::move(state)) {}
Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(const std::string& path, Mode mode) {
  const int flags = mode == Mode::kWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  FRESHET_TRY(db, SqliteConnection::open(path, flags | SQLITE_OPEN_NOMUTEX));
  // Check before reading: a read would create a -shm file with the file's current permissions, and
  // the database would stay read-only after they are fixed.
  if (mode == Mode::kWrite && db->is_read_only())
    return fail(ErrorCode::kUnavailable, "database_readonly", {}, "the file is not writable");
  auto state = std::make_unique<Impl>(path, std::move(*db));
  if (auto ok = prepare_file(*state->db, mode == Mode::kWrite); !ok) return tl::unexpected(ok.error());
  for (std::size_t i = 0; i < kStatementCount; ++i) {
    FRESHET_TRY(query, state->db->prepare(kSql[i]));
    state->queries[i] = std::move(*query);
  }
  FRESHET_TRY(readers, ReaderRows::create(*state->db));
  state->readers = std::move(*readers);
  FRESHET_TRY(items, state->db->integer("SELECT count(*) FROM items"));
  state->item_count = *items;
  if (auto ok = state->load_or_create_id(mode == Mode::kWrite); !ok) return tl::unexpected(ok.error());
  state->wal_identity = file_identity(state->wal_path());
  return std::unique_ptr<Database>(new Database(std::move(state)));
}

// --- Identity and fencing

Result<void> Database::Impl::load_or_create_id(bool may_write) {
  FRESHET_TRY(stored, meta(kDatabaseIdKey));
  database_id = std::move(*stored);
  if (!database_id.empty() || !may_write) return {};
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return fail(ErrorCode::kInternal, "database_error", {}, "cannot get random bytes");
  database_id = hex(random);
  return put_meta(kDatabaseIdKey, database_id);
}

const std::string& Database::database_id() const { return impl_->database_id; }

Result<std::uint64_t> Database::stored_fencing_token() {
  FRESHET_TRY(text, impl_->meta(kFencingTokenKey));
  return redis::parse_or_zero<std::uint64_t>(*text);
}

Result<void> Database::verify_fencing_token() {
  FRESHET_TRY(stored, stored_fencing_token());
  if (*stored == impl_->fencing_token) return {};
  return fail(ErrorCode::kUnavailable, "lease_lost", {}, "another recorder is writing the database");
}

Result<void> Database::set_fencing_token(std::uint64_t token) {
  impl_->fencing_token = 0;
  if (auto ok = begin(); !ok) return ok;
  impl_->fencing_token = token;
  const auto stored = stored_fencing_token();
  Result<void> outcome = stored ? Result<void>() : tl::unexpected(stored.error());
  if (stored && *stored > token) outcome = verify_fencing_token();
  if (outcome) outcome = impl_->put_meta(kFencingTokenKey, std::to_string(token));
  if (outcome) outcome = commit();
  if (!outcome) rollback();
  return outcome;
}

Result<std::vector<std::string>> Database::backup_ids() {
  PreparedStatement& query = impl_->queries[kMetaOf];
  query.bind(1, kBackupPrefix).bind(2, kBackupPrefixEnd);
  std::vector<std::pair<std::int64_t, std::string>> rows;
  for (;;) {
    FRESHET_TRY(has_row, query.step());
    if (!*has_row) break;
    rows.emplace_back(redis::parse_or_zero<std::int64_t>(query.text(1)),
                      query.text(0).substr(kBackupPrefix.size()));
  }
  query.reset();
  std::ranges::sort(rows);
  std::vector<std::string> out;
  for (auto& [count, id] : rows) out.push_back(std::move(id));
  return out;
}

Result<void> Database::set_backup_ids(const std::vector<std::string>& ids) {
  FRESHET_TRY(remove, impl_->db->prepare("DELETE FROM meta WHERE name >= ?1 AND name < ?2"));
  if (auto ok = remove->bind(1, kBackupPrefix).bind(2, kBackupPrefixEnd).run(); !ok) return ok;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto ok = impl_->put_meta(std::string(kBackupPrefix) + ids[i], std::to_string(i + 1));
    if (!ok) return ok;
  }
  return {};
}

// --- Transactions

Result<void> Database::begin() {
  impl_->items_added = 0;
  auto begun = impl_->db->execute("BEGIN IMMEDIATE");
  if (!begun || impl_->fencing_token == 0) return begun;
  auto verified = verify_fencing_token();
  if (!verified) rollback();
  return verified;
}

Result<void> Database::commit() {
  if (auto ok = impl_->db->execute("COMMIT"); !ok) return ok;
  impl_->item_count += std::exchange(impl_->items_added, 0);
  return {};
}

void Database::rollback() {
  impl_->items_added = 0;
  // Some errors have rolled back already. Any other failure shows in the next begin().
  if (impl_->db->in_transaction()) (void)impl_->db->execute("ROLLBACK");
}

// The pragma returns 1 if another connection still reads from the log.
Result<void> Database::truncate_wal() {
  FRESHET_TRY(busy, impl_->db->integer("PRAGMA wal_checkpoint(TRUNCATE)"));
  if (*busy != 0)
    return fail(ErrorCode::kUnavailable, "database_locked", {}, "another connection is reading the log");
  return {};
}

// --- Writing

Result<void> Database::put_item(const items::Item& item) {
  Impl& s = *impl_;
  PreparedStatement& find = s.queries[kFind];
  FRESHET_TRY(found, find.bind(1, item.id.view()).step());
  const std::int64_t old_key = *found ? find.integer(0) : 0;
  find.reset();

  std::optional<std::int64_t> updated, expires;
  if (item.update_time) updated = unix_s(*item.update_time);
  if (item.expires_at) expires = unix_s(*item.expires_at);
  PreparedStatement& write = s.queries[*found ? kUpdate : kInsert];
  write.bind(1, item.id.view()).bind(2, item.title).bind(3, item.text).bind(4, item.author).bind(5, item.url);
  write.bind(6, unix_s(item.published_at)).bind(7, updated).bind(8, std::int64_t{item.hidden});
  write.bind(9, item.section).bind(10, item.language).bind(11, item.story.view());
  write.bind(12, items::name_of(item.text_format)).bind(13, expires).bind(14, item.weight);
  write.bind(15, item.author_id);
  if (auto ok = write.run(); !ok) return ok;
  if (*found) {
    if (auto ok = s.queries[kDropTags].bind(1, old_key).run(); !ok) return ok;
  } else {
    ++s.items_added;
  }
  return s.put_tags(*found ? old_key : s.db->last_insert_rowid(), item);
}

Result<void> Database::Impl::put_tags(std::int64_t key, const items::Item& item) {
  std::int64_t place = 0;
  for (const TagName& tag : item.tags) {
    if (auto ok = queries[kAddTag].bind(1, key).bind(2, place++).bind(3, tag.view()).run(); !ok) return ok;
  }
  return {};
}

Result<void> Database::remove_item(const ItemId& id) {
  if (auto ok = impl_->queries[kDelete].bind(1, id.view()).run(); !ok) return ok;
  impl_->items_added -= impl_->db->changes();
  return {};
}

Result<void> Database::Impl::put_meta(std::string_view name, std::string_view value) {
  return queries[kSetMeta].bind(1, name).bind(2, value).run();
}

Result<void> Database::put_last_entry(std::string_view stream, std::string_view entry) {
  return impl_->put_meta(last_entry_key(stream), entry);
}

Result<void> Database::put_erasure(std::string_view reader, UnixSeconds at) {
  const auto put = [&](std::string_view name, UnixSeconds time) {
    return impl_->put_meta(std::string(kErasurePrefix).append(name), std::to_string(unix_s(time)));
  };
  FRESHET_TRY(merged, merges_into(reader));
  if (auto ok = put(reader, at); !ok) return ok;
  for (const Merge& each : *merged) {
    FRESHET_TRY(recorded, impl_->meta(std::string(kErasurePrefix) + each.from));
    if (redis::parse_or_zero<std::int64_t>(*recorded) < unix_s(each.at)) {
      if (auto ok = put(each.from, each.at); !ok) return ok;
    }
    if (auto ok = impl_->queries[kDropMeta].bind(1, merge_key(each.to, each.from)).run(); !ok) return ok;
  }
  return {};
}

Result<void> Database::put_merge(const Merge& merge) {
  FRESHET_TRY(earlier, merges_into(merge.from));
  for (const Merge& each : *earlier) {
    if (each.from != merge.to) continue;
    if (auto ok = impl_->queries[kDropMeta].bind(1, merge_key(each.to, each.from)).run(); !ok) return ok;
  }
  return impl_->put_meta(merge_key(merge.to, merge.from), std::to_string(unix_s(merge.at)));
}

Result<void> Database::prune_merges(std::int64_t max) {
  FRESHET_TRY(drop_erased, impl_->db->prepare(kDropErasedMerges));
  if (auto ok = drop_erased->run(); !ok) return ok;
  FRESHET_TRY(drop_oldest, impl_->db->prepare(kDropOldestMerges));
  return drop_oldest->bind(1, max).run();
}

namespace {

// Start of the oldest bucket that is not merged into an hour.
std::int64_t oldest_bucket(UnixSeconds now) {
  return unix_s(now - Database::kViewBucketsKept) / kHourSeconds * kHourSeconds;
}

}  // namespace

Result<void> Database::add_views(UnixSeconds bucket, const ItemId& item, std::int64_t views,
                                 UnixSeconds now) {
  if (unix_s(bucket) < oldest_bucket(now) || bucket > now) return {};
  PreparedStatement& add = impl_->queries[kAddViews];
  return add.bind(1, unix_s(bucket)).bind(2, kViewBucketSeconds).bind(3, item.view()).bind(4, views).run();
}

Result<void> Database::prune_view_counts(UnixSeconds now) {
  const auto run = [&](std::string_view sql, std::int64_t bound) -> Result<void> {
    FRESHET_TRY(statement, impl_->db->prepare(sql));
    return statement->bind(1, bound).run();
  };
  if (auto ok = run(kDeleteOldViews, unix_s(now - kViewHoursKept)); !ok) return ok;
  for (const std::string_view sql : kMergeViews) {
    if (auto ok = run(sql, oldest_bucket(now)); !ok) return ok;
  }
  std::vector<std::int64_t> buckets;
  FRESHET_TRY(large, impl_->db->prepare(kLargeBuckets));
  large->bind(1, unix_s(now) - kViewBucketSeconds).bind(2, kMaxViewedItems);
  for (;;) {
    FRESHET_TRY(has_row, large->step());
    if (!*has_row) break;
    buckets.push_back(large->integer(0));
  }
  large->reset();
  FRESHET_TRY(drop, impl_->db->prepare(kDropLeastViewed));
  for (const std::int64_t bucket : buckets) {
    if (auto ok = drop->bind(1, bucket).bind(2, kMaxViewedItems).run(); !ok) return ok;
  }
  return {};
}

namespace {

std::int64_t day_of(UnixSeconds at) { return unix_s(at) / kDaySeconds * kDaySeconds; }

// log2(2^a + 2^b); b is finite.
double add_log2(double a, double b) { return std::max(a, b) + std::log2(1 + std::exp2(-std::abs(a - b))); }

}  // namespace

Result<void> Database::add_covisits(const ItemId& item, const ItemId& next, UnixSeconds at,
                                    std::int64_t count, UnixSeconds now) {
  at = std::min(at, now);
  if (day_of(at) < day_of(now - kCovisitsKept)) return {};
  const double half_lives =
      static_cast<double>(unix_s(at)) / static_cast<double>(items::kCovisitHalfLife.count());
  const std::optional<double> recent = std::log2(static_cast<double>(count)) + half_lives;
  PreparedStatement& add = impl_->queries[kAddCovisits];
  add.bind(1, day_of(at)).bind(2, item.view()).bind(3, next.view()).bind(4, count).bind(5, recent);
  return add.run();
}

Result<std::vector<items::Covisit>> Database::covisits(const ItemId& item, std::size_t limit,
                                                       UnixSeconds now) {
  struct Pair {
    std::int64_t count = 0;
    double recent = -std::numeric_limits<double>::infinity();
  };
  std::unordered_map<std::string, Pair> pairs;
  PreparedStatement& query = impl_->queries[kCovisits];
  for (std::int64_t day = day_of(now - kCovisitsKept); day <= day_of(now); day += kDaySeconds) {
    query.bind(1, day).bind(2, item.view());
    for (;;) {
      FRESHET_TRY(has_row, query.step());
      if (!*has_row) break;
      Pair& pair = pairs[std::string(query.text(0))];
      pair.count += query.integer(1);
      pair.recent = add_log2(pair.recent, query.real(2));
    }
    query.reset();
  }
  std::vector<items::Covisit> out;
  for (const auto& [next, pair] : pairs) {
    if (pair.count >= kMinCovisits) out.push_back({ItemId::trusted(next), pair.recent});
  }
  std::ranges::sort(out, [](const items::Covisit& a, const items::Covisit& b) {
    return a.recent != b.recent ? a.recent > b.recent : a.next < b.next;
  });
  out.resize(std::min(out.size(), limit));
  return out;
}

Result<void> Database::prune_covisits(UnixSeconds now) {
  const std::int64_t oldest = day_of(now - kCovisitsKept);
  FRESHET_TRY(remove_old, impl_->db->prepare(kDeleteOldCovisits));
  if (auto ok = remove_old->bind(1, oldest).run(); !ok) return ok;
  FRESHET_TRY(drop, impl_->db->prepare(kDropLeastCovisited));
  for (std::int64_t day = oldest; day <= day_of(now); day += kDaySeconds) {
    if (auto ok = drop->bind(1, day).bind(2, kMaxCovisits).run(); !ok) return ok;
  }
  return {};
}

// --- Reading

Result<std::vector<Database::Erasure>> Database::erasures_since(UnixSeconds since) {
  PreparedStatement& query = impl_->queries[kMetaOf];
  query.bind(1, kErasurePrefix).bind(2, kErasurePrefixEnd);
  std::vector<Erasure> out;
  for (;;) {
    FRESHET_TRY(has_row, query.step());
    if (!*has_row) break;
    const UnixSeconds at{seconds{redis::parse_or_zero<std::int64_t>(query.text(1))}};
    if (at >= since) out.push_back({std::string(query.text(0).substr(kErasurePrefix.size())), at});
  }
  query.reset();
  return out;
}

Result<std::vector<Database::Merge>> Database::Impl::merges_between(std::string_view begin,
                                                                    std::string_view end) {
  PreparedStatement& query = queries[kMetaOf];
  query.bind(1, begin).bind(2, end);
  std::vector<Merge> out;
  for (;;) {
    FRESHET_TRY(has_row, query.step());
    if (!*has_row) break;
    const std::string_view names = query.text(0).substr(kMergePrefix.size());
    const std::size_t mark = names.find(':');
    if (mark == names.npos) continue;
    out.push_back({std::string(names.substr(mark + 1)), std::string(names.substr(0, mark)),
                   UnixSeconds{seconds{redis::parse_or_zero<std::int64_t>(query.text(1))}}});
  }
  query.reset();
  return out;
}

Result<std::vector<Database::Merge>> Database::merges() {
  return impl_->merges_between(kMergePrefix, kMergePrefixEnd);
}

Result<std::vector<Database::Merge>> Database::merges_into(std::string_view reader) {
  std::vector<Merge> out;
  std::vector<std::string> targets{std::string(reader)};
  std::unordered_set<std::string> known{targets.front()};
  while (!targets.empty()) {
    const std::string prefix = std::string(kMergePrefix) + targets.back();
    targets.pop_back();
    FRESHET_TRY(found, impl_->merges_between(prefix + ":", prefix + ";"));
    for (Merge& each : *found) {
      if (known.insert(each.from).second) targets.push_back(each.from);
      out.push_back(std::move(each));
    }
  }
  return out;
}

Result<std::string> Database::Impl::meta(std::string_view name) {
  PreparedStatement& query = queries[kGetMeta];
  FRESHET_TRY(found, query.bind(1, name).step());
  std::string out(*found ? query.text(0) : std::string_view());
  query.reset();
  return out;
}

Result<void> Database::put_counted_entry(std::string_view stream, std::string_view entry) {
  return impl_->put_meta(counted_entry_key(stream), entry);
}

Result<std::string> Database::counted_entry(std::string_view stream) {
  return impl_->meta(counted_entry_key(stream));
}

Result<std::string> Database::last_entry(std::string_view stream) {
  return impl_->meta(last_entry_key(stream));
}

Result<bool> Database::has_recorded_entries() {
  PreparedStatement& query = impl_->queries[kMetaOf];
  const auto found = query.bind(1, kLastEntryKey).bind(2, kLastEntryKeyEnd).step();
  query.reset();
  return found;
}

Result<items::Item> Database::Impl::current_item() {
  PreparedStatement& row = queries[kAll];
  items::Item item;
  item.id = ItemId::trusted(std::string(row.text(1)));
  item.title = std::string(row.text(2));
  item.text = std::string(row.text(3));
  item.author = std::string(row.text(4));
  item.url = std::string(row.text(5));
  item.published_at = UnixSeconds{seconds{row.integer(6)}};
  if (!row.is_null(7)) item.update_time = UnixSeconds{seconds{row.integer(7)}};
  item.hidden = row.integer(8) != 0;
  item.section = std::string(row.text(9));
  item.language = std::string(row.text(10));
  item.story = items::StoryId::trusted(std::string(row.text(11)));
  item.text_format = items::text_format_of(row.text(12)).value_or(items::TextFormat::kPlain);
  if (!row.is_null(13)) item.expires_at = UnixSeconds{seconds{row.integer(13)}};
  if (!row.is_null(14)) item.weight = row.real(14);
  item.author_id = std::string(row.text(15));
  PreparedStatement& tags = queries[kTags];
  tags.bind(1, row.integer(0));
  for (;;) {
    FRESHET_TRY(has_row, tags.step());
    if (!*has_row) break;
    item.tags.push_back(TagName::trusted(std::string(tags.text(0))));
  }
  tags.reset();
  return item;
}

Result<void> Database::for_each_item(const std::function<Result<void>(const items::Item&)>& each) {
  return for_some_items("", -1, each);
}

Result<void> Database::for_some_items(std::string_view after, std::int64_t limit,
                                      const std::function<Result<void>(const items::Item&)>& each) {
  Impl& s = *impl_;
  // One snapshot for items and tags.
  const bool own_transaction = !s.db->in_transaction();
  if (own_transaction) {
    if (auto ok = s.db->execute("BEGIN"); !ok) return ok;
  }
  s.queries[kAll].bind(1, after).bind(2, limit);
  Result<void> outcome;
  while (outcome) {
    const auto has_row = s.queries[kAll].step();
    if (!has_row) outcome = tl::unexpected(has_row.error());
    if (!has_row || !*has_row) break;
    const auto item = s.current_item();
    outcome = item ? each(*item) : Result<void>(tl::unexpected(item.error()));
  }
  s.queries[kAll].reset();
  if (own_transaction) rollback();  // nothing was written
  return outcome;
}

Result<void> Database::for_each_id(const std::function<Result<void>(std::string_view)>& each) {
  PreparedStatement& ids = impl_->queries[kIds];
  Result<void> outcome;
  while (outcome) {
    const auto has_row = ids.step();
    if (!has_row) outcome = tl::unexpected(has_row.error());
    if (!has_row || !*has_row) break;
    outcome = each(ids.text(0));
  }
  ids.reset();
  return outcome;
}

ReaderRows& Database::readers() { return *impl_->readers; }

std::int64_t Database::item_count() const { return impl_->item_count; }

Result<std::int64_t> Database::count_visible() {
  return impl_->db->integer("SELECT count(*) FROM items WHERE hidden = 0");
}

bool Database::was_replaced() const {
  return impl_->db->file_moved() || file_identity(impl_->wal_path()) != impl_->wal_identity;
}

}  // namespace freshet::database
