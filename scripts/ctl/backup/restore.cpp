#include "scripts/ctl/backup/restore.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/secret.h"
#include "core/base/utf8.h"
#include "core/database/database_copy.h"
#include "core/hot/rebuild.h"
#include "core/recorder/lease.h"
#include "core/recorder/restore_readers.h"
#include "core/redis/fields.h"
#include "core/redis/schema.h"
#include "core/redis/scripts.h"
#include "fcgi/reader_hashes.h"
#include "scripts/ctl/backup/backup.h"
#include "scripts/ctl/backup/backup_folder.h"
#include "scripts/ctl/backup/load_redis.h"
#include "scripts/ctl/backup/reconcile.h"
#include "scripts/ctl/backup/repeat_erasures.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/redis_scan.h"
#include "scripts/ctl/commands/reindex.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

Result<void> remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (!error) return {};
  return fail(ErrorCode::kUnavailable, "backup_io", {}, path + ": " + error.message());
}

// Commands that a restore sends in addition to those of the service. check_loadable() tries
// BF.LOADCHUNK.
constexpr std::array kRestoreCommands{"PEXPIREAT K 1", "PFMERGE K K", "SSCAN K 0", "XDEL K 0",
                                      "XSETID K 1-1"};

// How far the clock of the host that made the backup may be ahead of Redis' clock.
constexpr seconds kClockTolerance{120};

constexpr std::string_view kUnknownErasures = "erasures_unknown";

class Restorer {
 public:
  Restorer(const RestoreOptions& options, const Settings& settings, const redis::Endpoint& endpoint)
      : options_(options),
        settings_(settings),
        endpoint_(endpoint),
        redis_(endpoint, kRedisTimeout, redis::kAllScripts),
        lease_(redis::Keys(settings.redis)),
        line_(stderr, options.quiet) {}

  Result<void> run() {
    for (const auto step :
         {&Restorer::verify, &Restorer::require_rights, &Restorer::require_stopped, &Restorer::require_empty,
          &Restorer::require_loadable, &Restorer::load_erasures, &Restorer::load_tombstones,
          &Restorer::copy_database, &Restorer::require_known_erasures, &Restorer::acquire_lease,
          &Restorer::load, &Restorer::reconcile_state, &Restorer::install_database, &Restorer::copy_model,
          &Restorer::rebuild_ranks}) {
      if (auto ok = (this->*step)(); !ok) return ok;
    }
    return {};
  }

  void write_json(json::Writer& out) const {
    out.key("items").integer(manifest_.items).key("keys").integer(loaded_.keys);
    out.key("as_of").string(to_rfc3339(manifest_.began)).key("expired").integer(loaded_.expired);
    out.key("put").integer(reconciled_.items_put).key("removed").integer(reconciled_.items_removed);
    out.key("half_follows").integer(reconciled_.one_sided_follows).key("erased").integer(erased_);
    out.key("erasures_known").boolean(knows_erasures_);
    if (!converter_) return;
    out.key("merged_ids").begin_array();
    for (const auto& [before, now] : converter_->merged_ids())
      out.begin_object().key("id").string(before).key("became").string(now).end_object();
    out.end_array();
  }

  void print_report() const {
    ctl::print("restored {} items and {} keys, as of {}; {} keys had expired since\n",
               format_number(manifest_.items), format_number(loaded_.keys), to_rfc3339(manifest_.began),
               format_number(loaded_.expired));
    ctl::print("reconciled: {} items put, {} removed, {} one-sided follows dropped\n",
               format_number(reconciled_.items_put), format_number(reconciled_.items_removed),
               format_number(reconciled_.one_sided_follows));
    ctl::print("erasures repeated: {} readers{}\n", format_number(erased_),
               knows_erasures_ ? "" : "; others made after the backup are unknown here and must be repeated");
    if (!converter_) return;
    ctl::print("converted from the previous schema; {} ids were merged with another id\n",
               format_number(std::ssize(converter_->merged_ids())));
    for (const auto& [before, now] : converter_->merged_ids()) ctl::print("  {} is now {}\n", before, now);
  }

 private:
  using KnownTimes = std::set<std::pair<std::string, UnixSeconds>>;  // of readers' erasures and merges

  const std::string& database_path() const { return settings_.recorder.database; }
  std::string temporary_path() const { return database_path() + ".restoring"; }
  std::string backup_path(std::string_view name) const { return (fs::path(options_.folder) / name).string(); }

  Result<void> remove_temporary() const {
    for (const char* const suffix : {"", "-wal", "-shm"}) {
      if (auto ok = remove_file(temporary_path() + suffix); !ok) return ok;
    }
    return {};
  }

  Result<void> verify() {
    FRESHET_TRY(manifest, verify_backup(options_.folder));
    manifest_ = std::move(*manifest);
    if (manifest_.key_prefix == settings_.redis.key_prefix) return {};
    return fail(ErrorCode::kConflict, "key_mismatch", {},
                fmt::format("the backup was made with redis.key_prefix = \"{}\"", manifest_.key_prefix));
  }

  // Checked before the rights: what an older server lacks are commands. The dump is not compressed,
  // and Redis needs more than half as many bytes even if most members are numbers in listpacks. In
  // a cluster, each master has a limit of its own, which is not compared.
  Result<void> require_server() {
    redis::Pipeline query;
    query.add("INFO");
    const auto replies = redis_.call(query);
    if (!replies) return tl::unexpected(with_redis_address(replies.error(), endpoint_));
    const std::string_view info = replies->front().text();
    if (const auto supported = redis::check_server_version(info); !supported) {
      Error error = supported.error();
      error.detail += ". Nothing was changed";
      return tl::unexpected(with_redis_address(std::move(error), endpoint_));
    }
    const auto maxmemory = redis::parse_or_zero<std::uintmax_t>(redis::info_value(info, "maxmemory"));
    std::error_code ignored;
    const std::uintmax_t bytes = fs::file_size(backup_path(kRedisName), ignored);
    if (ignored || maxmemory == 0 || bytes / 2 <= maxmemory || endpoint_.is_cluster()) return {};
    const std::string problem = fmt::format(
        "{} has {} bytes, and its data takes more than half as much memory, but maxmemory is {} bytes. Raise "
        "maxmemory in redis.conf. Nothing was changed",
        backup_path(kRedisName), bytes, maxmemory);
    return tl::unexpected(
        with_redis_address(Error{ErrorCode::kConflict, "maxmemory_too_small", {}, problem}, endpoint_));
  }

  Result<void> require_rights() {
    if (auto ok = require_server(); !ok) return ok;
    const auto account = collect_missing_rights(endpoint_, settings_, kRestoreCommands);
    if (!account) return tl::unexpected(with_redis_address(account.error(), endpoint_));
    if (account->missing.empty()) return {};
    const std::string problem = fmt::format(
        "the account {} lacks rights that a restore needs: {}. Use the operator's account: "
        "--redis-user freshet-operator:FILE. Nothing was changed",
        account->name, join_names(account->missing));
    return tl::unexpected(
        with_redis_address(Error{ErrorCode::kConflict, "account_lacks_rights", {}, problem}, endpoint_));
  }

  Result<void> require_stopped() {
    const auto recorder = recorder::read_lease_owner(redis_, redis::Keys(settings_.redis));
    if (!recorder) return tl::unexpected(with_redis_address(recorder.error(), endpoint_));
    previous_owner_ = recorder->database;
    if (!database::database_in_use(database_path())) return {};
    return fail(ErrorCode::kConflict, "service_running", {},
                "the service is running: stop it and its socket (freshet.socket) first");
  }

  Result<void> require_empty() {
    if (options_.replace) return {};
    std::error_code ignored;
    if (fs::exists(database_path(), ignored))
      return fail(ErrorCode::kConflict, "has_data", {}, database_path() + " exists; --replace deletes it");
    const auto keys = has_keys(redis_, settings_.redis);
    if (!keys) return tl::unexpected(with_redis_address(keys.error(), endpoint_));
    if (!*keys) return {};
    return fail(ErrorCode::kConflict, "has_data", {}, "Redis has keys of Freshet; --replace deletes them");
  }

  Result<void> require_loadable() {
    FRESHET_TRY(dump, DumpReader::open(backup_path(kRedisName)));
    if (dump->has_old_schema()) {
      converter_.emplace(settings_.redis);
      if (auto ok = converter_->prepare(backup_path(kRedisName)); !ok) return ok;
    }
    const auto loadable = check_loadable(redis_, settings_.redis, *dump);
    if (loadable) return {};
    if (loadable.error().reason != "backup_not_loadable")
      return tl::unexpected(with_redis_address(loadable.error(), endpoint_));
    redis::Pipeline query;
    query.add("INFO", "server");
    const auto info = run_pipeline(redis_, query);
    const std::string name = info ? redis::server_name(info->front().text()) : std::string();
    return fail(ErrorCode::kConflict, "backup_not_loadable", {},
                fmt::format("{} cannot load this backup of {}: {}. Nothing was deleted",
                            name.empty() ? "this server" : name, manifest_.server, loadable.error().detail));
  }

  // Collects the readers to erase before the database that lists them is replaced.
  Result<void> load_erasures() {
    if (!options_.erase.empty()) {
      FRESHET_TRY(text, read_file(options_.erase));
      std::istringstream lines(*text);
      for (std::string each; std::getline(lines, each);) {
        if (each.empty()) continue;
        FRESHET_TRY(id, ReaderId::parse(each, "--erase"));
        erasures_.readers.push_back(std::move(*id));
      }
    }
    if (!settings_.identity.salt_file.empty()) {
      FRESHET_TRY(salt, read_secret(settings_.identity.salt_file));
      FRESHET_TRY(identity, http::Identity::create(http::IdentityMode::kHeader, *salt));
      identity_.emplace(std::move(*identity));
      hashes_ = reader_hashes(*identity_);
    }
    if (hashes_.erasure) {
      for (const ReaderId& each : erasures_.readers)
        unrecorded_erasures_.push_back({hashes_.erasure(each), UnixSeconds::max()});
    }
    std::error_code ignored;
    if (!fs::exists(database_path(), ignored)) return {};
    if (const auto now = database::Database::open(database_path(), database::Database::Mode::kRead)) {
      if (auto ok = read_erasures(**now); !ok) return ok;
      // install_database() removes the write-ahead log, so what it lists must be in the file
      // before.
      FRESHET_TRY(current, database::Database::open(database_path(), database::Database::Mode::kWrite));
      return (*current)->truncate_wal();
    }
    return load_erasures_of_older_database();
  }

  // Migrates a copy, so that the version that wrote the database can still read it if the restore
  // is refused. The write-ahead log is empty, since database_in_use() has opened and closed the
  // file.
  Result<void> load_erasures_of_older_database() {
    if (auto ok = remove_temporary(); !ok) return ok;
    Result<void> read;
    if (database::copy_database(database_path(), temporary_path())) {
      // Damaged or of a later version: require_known_erasures() refuses unless an option allows it.
      if (const auto copy = database::Database::open(temporary_path(), database::Database::Mode::kWrite))
        read = read_erasures(**copy);
    }
    const auto removed = remove_temporary();
    return read ? removed : read;
  }

  Result<void> read_erasures(database::Database& current) {
    FRESHET_TRY(recorded, current.erasures_since(UnixSeconds{}));
    recorded_erasures_ = std::move(*recorded);
    FRESHET_TRY(merges, current.merges());
    recorded_merges_ = std::move(*merges);
    std::ranges::sort(recorded_merges_, {}, &database::Database::Merge::at);
    FRESHET_TRY(ids, current.backup_ids());
    current_backup_ids_ = std::move(*ids);
    current_identity_ = current.database_id();
    FRESHET_TRY(token, current.stored_fencing_token());
    current_token_ = *token;
    return add_erasures(current);
  }

  // Erasures that were accepted after the backup began and that perhaps no recorder has recorded
  // yet. Of the two minutes before, some may have been accepted after it. Repeating the others as
  // well erases only what these readers left in that time.
  Result<void> load_tombstones() {
    const redis::Keys keys(settings_.redis);
    const auto scanned =
        scan_all(redis_, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
          std::vector<std::string> names;
          redis::Pipeline read;
          for (const std::string& key : page) {
            const redis::KeyPattern* const row = keys.pattern_of(key);
            if (row == nullptr || row->pattern != "user:erased:{*}") continue;
            const std::size_t from = key.find('{') + 1;
            names.push_back(key.substr(from, key.rfind('}') - from));
            read.add("GET", key);
          }
          if (names.empty()) return {};
          FRESHET_TRY(times, run_pipeline(redis_, read));
          for (std::size_t i = 0; i < names.size(); ++i) {
            const UnixSeconds at{seconds{redis::to_int((*times)[i].text())}};
            if (at < manifest_.began - kClockTolerance) continue;
            erasures_.pseudonyms.insert(names[i]);
            unrecorded_erasures_.push_back({names[i], at});
          }
          return {};
        });
    return scanned ? Result<void>() : tl::unexpected(with_redis_address(scanned.error(), endpoint_));
  }

  Result<void> add_erasures(database::Database& from) {
    FRESHET_TRY(hashed, from.erasures_since(manifest_.began));
    for (const auto& each : *hashed) erasures_.pseudonyms.insert(each.reader);
    return {};
  }

  // Copies the database next to its final path and migrates it to this version. The copy lists all
  // erasures and merges that the current database lists, and the erasures that it does not list
  // yet, so that they survive any sequence of restores. It has recorded no others, so its backup
  // ids are those of the current database.
  Result<void> copy_database() {
    if (auto ok = remove_temporary(); !ok) return ok;
    if (auto ok = copy_file(backup_path(kDatabaseName), temporary_path()); !ok) return ok;
    if (converter_) {
      erasures_.former_ids = converter_->former_ids();
      FRESHET_TRY(unnormalized, database::unnormalized_readers(temporary_path()));
      for (const std::string& each : *unnormalized) erasures_.former_ids[utf8::to_nfc(each)].insert(each);
    }
    FRESHET_TRY(migrated, database::Database::open(temporary_path(), database::Database::Mode::kWrite));
    backup_identity_ = (*migrated)->database_id();
    FRESHET_TRY(token, (*migrated)->stored_fencing_token());
    backup_token_ = *token;
    FRESHET_TRY(listed, (*migrated)->erasures_since(UnixSeconds{}));
    FRESHET_TRY(merges, (*migrated)->merges());
    // The backup holds nothing that these readers left before these times.
    KnownTimes known;
    for (const auto& each : *listed) known.emplace(each.reader, each.at);
    for (const auto& each : *merges) known.emplace(each.from, each.at);
    // All others were made after the backup, whatever the clocks said.
    if (auto ok = (*migrated)->begin(); !ok) return ok;
    for (const auto& each : recorded_erasures_) {
      if (known.contains({each.reader, each.at})) continue;
      erasures_.pseudonyms.insert(each.reader);
      if (auto ok = (*migrated)->put_erasure(each.reader, each.at); !ok) return ok;
    }
    if (auto ok = put_unrecorded_erasures(**migrated, known); !ok) return ok;
    if (auto ok = (*migrated)->set_backup_ids(current_backup_ids_); !ok) return ok;
    if (auto ok = (*migrated)->commit(); !ok) return ok;
    return (*migrated)->truncate_wal();
  }

  // Also puts the recorded merges, all in order of time, because an erasure covers the merges made
  // before it. Tombstones expire, and their jobs' stream entries are replaced.
  Result<void> put_unrecorded_erasures(database::Database& copy, const KnownTimes& known) {
    FRESHET_TRY(listed, copy.erasures_since(UnixSeconds{}));
    std::map<std::string, UnixSeconds> recorded;
    for (auto& each : *listed) recorded.emplace(std::move(each.reader), each.at);
    std::ranges::sort(unrecorded_erasures_, {}, &database::Database::Erasure::at);
    auto merge = recorded_merges_.begin();
    const auto put_merges_until = [&](UnixSeconds at) -> Result<void> {
      for (; merge != recorded_merges_.end() && merge->at <= at; ++merge) {
        if (auto ok = copy.put_merge(*merge); !ok) return ok;
      }
      return {};
    };
    for (const auto& erasure : unrecorded_erasures_) {
      if (auto ok = put_merges_until(erasure.at); !ok) return ok;
      FRESHET_TRY(merged, copy.merges_into(erasure.reader));
      for (const auto& each : *merged) {
        if (each.at <= erasure.at && (each.at >= manifest_.began || !known.contains({each.from, each.at})))
          erasures_.pseudonyms.insert(each.from);
      }
      const UnixSeconds at = std::min(erasure.at, wall_now());  // of named readers: now
      if (const auto found = recorded.find(erasure.reader); found != recorded.end() && found->second >= at)
        continue;
      if (auto ok = copy.put_erasure(erasure.reader, at); !ok) return ok;
    }
    return put_merges_until(UnixSeconds::max());
  }

  // Only the database that the backup is of lists the erasures made after it. An earlier copy of it
  // does not, and lacks the backup's id. For a backup without an id, an earlier copy is recognized
  // only by its fencing token, which each recorder that takes over increases.
  Result<void> require_known_erasures() {
    const bool is_later_state =
        manifest_.id ? std::ranges::count(current_backup_ids_, *manifest_.id) > 0
                     : current_identity_ == backup_identity_ && current_token_ >= backup_token_;
    knows_erasures_ = hashes_.erasure && is_later_state;
    if (knows_erasures_ || !erasures_.readers.empty() || options_.accept_unknown_erasures) return {};
    if (auto ok = remove_temporary(); !ok) return ok;
    return fail(
        ErrorCode::kConflict, kUnknownErasures, {},
        fmt::format("readers erased after {} are not known here, because {}. Name them with --erase, or "
                    "give --accept-unknown-erasures and erase them again. Nothing was deleted",
                    to_rfc3339(manifest_.began), unknown_reason()));
  }

  std::string unknown_reason() const {
    if (!hashes_.erasure) return "identity.salt_file is not set";
    if (manifest_.id && manifest_.id->empty()) return "the backup could not write the database";
    return database_path() + " is not the database that was backed up, or an earlier copy of it";
  }

  // From here on, Redis belongs to the restored database, and no recorder on any host can take
  // over.
  Result<void> acquire_lease() {
    if (const auto acquired = lease_.acquire(redis_, backup_identity_, backup_token_, previous_owner_);
        !acquired) {
      if (acquired.error().reason != "lease_held")
        return tl::unexpected(with_redis_address(acquired.error(), endpoint_));
      return fail(ErrorCode::kConflict, "service_running", {},
                  "the service is running: stop it and its socket (freshet.socket) first (" +
                      acquired.error().detail + ")");
    }
    lease_keeper_.emplace(lease_, endpoint_);
    return {};
  }

  Result<void> load() {
    if (const auto marked = mark_restoring(redis_, settings_.redis); !marked)
      return tl::unexpected(with_redis_address(marked.error(), endpoint_));
    if (options_.replace) {
      if (const auto removed = remove_keys(redis_, settings_.redis); !removed)
        return tl::unexpected(with_redis_address(removed.error(), endpoint_));
    }
    FRESHET_TRY(dump, DumpReader::open(backup_path(kRedisName)));
    const auto loaded = load_redis(redis_, settings_.redis, *dump, converter_ ? &*converter_ : nullptr,
                                   manifest_.keys, line_);
    if (!loaded) return tl::unexpected(with_redis_address(loaded.error(), endpoint_));
    loaded_ = *loaded;
    return {};
  }

  Result<void> reconcile_state() {
    FRESHET_TRY(opened, database::Database::open(temporary_path(), database::Database::Mode::kWrite));
    database::Database& restored = **opened;
    if (auto ok = restored.set_fencing_token(lease_.token()); !ok) return ok;
    FRESHET_TRY(reconciled, reconcile(redis_, restored, settings_, endpoint_));
    reconciled_ = *reconciled;
    if (auto ok = add_erasures(restored); !ok) return ok;  // erasures made while the backup was running
    FRESHET_TRY(erased, repeat_erasures(redis_, restored, settings_, hashes_, erasures_));
    erased_ = *erased;
    if (auto ok = recorder::restore_tombstones(redis_, restored, settings_, wall_now()); !ok) return ok;
    return restored.truncate_wal();
  }

  // Runs after reconcile_state(), which erased the readers from the copy, so that a killed restore
  // never leaves them in the database. Removes the old write-ahead log first; SQLite would apply it
  // to the new file.
  Result<void> install_database() {
    for (const char* const suffix : {"-wal", "-shm"}) {
      if (auto ok = remove_file(database_path() + suffix); !ok) return ok;
    }
    std::error_code error;
    fs::rename(temporary_path(), database_path(), error);
    if (error)
      return fail(ErrorCode::kUnavailable, "backup_io", {}, database_path() + ": " + error.message());
    return {};
  }

  Result<void> copy_model() {
    if (!manifest_.has(kModelName)) return {};
    return copy_file(backup_path(kModelName), settings_.recommend.model);
  }

  // From here on, services start with this Redis (mark_restoring()).
  Result<void> rebuild_ranks() {
    const auto rebuilt = redis::run_sync(hot::rebuild_ranks(redis_, settings_, redis::Keys(settings_.redis)));
    return rebuilt ? Result<void>() : tl::unexpected(rebuilt.error());
  }

  const RestoreOptions& options_;
  const Settings& settings_;
  const redis::Endpoint& endpoint_;
  redis::BlockingRedis redis_;
  recorder::Lease lease_;
  std::optional<recorder::LeaseKeepAlive> lease_keeper_;
  std::string previous_owner_;    // identity of the database that Redis belonged to
  std::string current_identity_;  // identity of the database that is replaced; empty: none
  std::string backup_identity_;   // identity of the backup's database
  std::uint64_t backup_token_ = 0, current_token_ = 0;
  ProgressLine line_;
  Manifest manifest_;
  std::optional<http::Identity> identity_;
  readers::ReaderPseudonyms hashes_;
  ErasureSet erasures_;                                           // made after the backup began
  std::vector<database::Database::Erasure> recorded_erasures_;    // all that the current database lists
  std::vector<database::Database::Merge> recorded_merges_;        // likewise, by time
  std::vector<std::string> current_backup_ids_;                   // of the current database
  std::vector<database::Database::Erasure> unrecorded_erasures_;  // named, or perhaps not recorded yet
  bool knows_erasures_ = false;
  std::optional<DumpConverter> converter_;  // for a backup of the previous schema
  RedisLoadResult loaded_;
  ReconcileResult reconciled_;
  std::int64_t erased_ = 0;
};

}  // namespace

Result<int> run_restore(const RestoreOptions& options, const Target& target) {
  umask(0077);
  FRESHET_TRY(settings, load_settings(target));
  std::vector<std::string_view> ignored_reasons{"restore_interrupted"};
  if (options.replace)
    ignored_reasons.insert(ignored_reasons.end(), {"schema_mismatch", "partitions_mismatch"});
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings, ignored_reasons));
  Restorer restorer(options, *settings, *endpoint);
  if (auto ok = restorer.run(); !ok) {
    if (ok.error().reason != kUnknownErasures) return tl::unexpected(ok.error());
    ctl::print(stderr, "freshetctl restore: {}\n", ok.error().detail);
    return kExitUnknownErasures;
  }
  if (!options.json) restorer.print_report();
  FRESHET_TRY(indexed, reindex(target, options.quiet));
  if (options.json)
    report_json([&](json::Writer& out) {
      restorer.write_json(out);
      out.key("indexed").integer(indexed->indexed);
    });
  else
    ctl::print("{}\n", summary_text(*indexed));
  return 0;
}

}  // namespace freshet::ctl
