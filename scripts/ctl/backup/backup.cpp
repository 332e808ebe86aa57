#include "scripts/ctl/backup/backup.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/database/database_copy.h"
#include "core/database/database_schema.h"
#include "scripts/ctl/backup/backup_folder.h"
#include "scripts/ctl/backup/save_redis.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> file_error(std::string_view name, const Error& error) {
  const std::string why = error.detail.empty() ? std::string(error.reason) : error.detail;
  return fail(ErrorCode::kInvalid, "bad_backup", {}, std::string(name) + ": " + why);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && fs::is_regular_file(path, ignored);
}

// The file and the conf.d files it includes.
Result<void> copy_config(const std::string& path, BackupWriter& into) {
  const fs::path main(path);
  const fs::path to(kConfigFolder);
  if (auto ok = into.copy(path, (to / main.filename()).string()); !ok) return ok;
  std::error_code absent;
  for (const auto& each : fs::directory_iterator(main.parent_path() / "conf.d", absent)) {
    if (each.path().extension() != ".toml") continue;
    if (auto ok = into.copy(each.path().string(), (to / "conf.d" / each.path().filename()).string()); !ok)
      return ok;
  }
  return {};
}

std::int64_t total_bytes(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const BackupFile& each : manifest.files) bytes += each.bytes;
  return bytes;
}

void write_summary(json::Writer& out, const Manifest& manifest) {
  out.key("items").integer(manifest.items).key("keys").integer(manifest.keys);
  out.key("server").string(manifest.server).key("bytes").integer(total_bytes(manifest));
  out.key("files").integer(static_cast<std::int64_t>(manifest.files.size()));
  out.key("made").string(to_rfc3339(manifest.began)).key("version").string(manifest.version);
  out.key("schema").integer(manifest.schema);
}

void print_summary(const Manifest& manifest) {
  ctl::print("{} items, {} keys of {}, {} files, {} bytes, made {} by Freshet {}, schema {}\n",
             format_number(manifest.items), format_number(manifest.keys), manifest.server,
             manifest.files.size(), format_number(total_bytes(manifest)), to_rfc3339(manifest.began),
             manifest.version, manifest.schema);
}

}  // namespace

Result<Manifest> verify_backup(const std::string& folder) {
  auto manifest = verify_files(folder);
  if (!manifest) return manifest;
  if (const auto known = database::check_version(manifest->schema); !known)
    return fail(ErrorCode::kUnavailable, "database_newer", {},
                fmt::format("the backup was made by Freshet {}: {}; restore it with that version or a later "
                            "one",
                            manifest->version, known.error().detail));
  const auto database = database::verify_database((fs::path(folder) / kDatabaseName).string());
  if (!database) return file_error(kDatabaseName, database.error());
  if (database->schema_version != manifest->schema)
    return file_error(kDatabaseName, {ErrorCode::kInvalid, {}, {}, "its schema differs from the manifest's"});
  FRESHET_TRY(dump, DumpReader::open((fs::path(folder) / kRedisName).string()));
  DumpRecord record;
  for (;;) {
    FRESHET_TRY(more, dump->next(record));
    if (!*more) return manifest;
  }
}

namespace {

Result<int> verify(const std::string& folder, bool as_json) {
  if (!fs::is_directory(folder))
    return fail(ErrorCode::kNotFound, "no_backup", {}, folder + ": no such folder");
  const auto manifest = verify_backup(folder);
  if (!manifest) {
    ctl::print(stderr, "freshetctl backup: {}\n", manifest.error().detail);
    if (as_json)
      report_json([&](json::Writer& out) {
        out.key("whole").boolean(false).key("why").string(manifest.error().detail);
      });
    return 1;
  }
  if (as_json) {
    report_json([&](json::Writer& out) {
      out.key("whole").boolean(true);
      write_summary(out, *manifest);
    });
    return 0;
  }
  print_summary(*manifest);
  ctl::print("complete and unchanged\n");
  return 0;
}

// Redis first, then the database (save_redis.h gives the reason). Returns the number of foreign
// keys left out.
Result<std::int64_t> save_state(const BackupOptions& options, const Settings& settings,
                                const redis::Endpoint& endpoint, const BackupWriter& into,
                                Manifest& manifest) {
  FRESHET_TRY(dump, DumpWriter::create(into.file_path(kRedisName)));
  redis::BlockingRedis redis(endpoint, kRedisTimeout, {});
  ProgressLine line(stderr, options.quiet);
  const auto saved = save_redis(redis, settings.redis, *dump, line);
  if (!saved) return tl::unexpected(with_redis_address(saved.error(), endpoint));
  if (auto ok = dump->finish(); !ok) return tl::unexpected(ok.error());
  manifest.server = saved->server;
  manifest.keys = saved->keys;

  manifest.id.emplace();
  if (auto id = database::add_backup_id(settings.recorder.database))
    *manifest.id = std::move(*id);
  else
    ctl::print(stderr,
               "warning: {} cannot be written ({}), so it will not be known whether it lists all erasures "
               "made after this backup: restore will need --erase or --accept-unknown-erasures\n",
               settings.recorder.database, id.error().detail);
  const std::string copy = into.file_path(kDatabaseName);
  if (auto ok = database::copy_database(settings.recorder.database, copy); !ok)
    return tl::unexpected(ok.error());
  const auto facts = database::verify_database(copy);
  if (!facts) return file_error(kDatabaseName, facts.error());
  manifest.schema = facts->schema_version;
  manifest.items = facts->items;
  return saved->foreign_keys;
}

Result<void> copy_files(const BackupOptions& options, const Settings& settings, const std::string& config,
                        BackupWriter& into) {
  if (exists(settings.recommend.model)) {
    if (auto ok = into.copy(settings.recommend.model, std::string(kModelName)); !ok) return ok;
  }
  return options.with_config && !config.empty() ? copy_config(config, into) : Result<void>();
}

}  // namespace

Result<int> run_backup(const BackupOptions& options, const Target& target) {
  umask(0077);
  if (options.verify) return verify(options.folder, options.json);
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  if (!exists(settings->recorder.database))
    return fail(ErrorCode::kNotFound, "no_database", {},
                settings->recorder.database + ": no such file; run the backup on the recorder's host");
  FRESHET_TRY(backup, BackupWriter::create(options.folder));

  Manifest manifest;
  manifest.version = FRESHET_VERSION;
  manifest.began = wall_now();
  manifest.key_prefix = settings->redis.key_prefix;
  FRESHET_TRY(foreign_keys, save_state(options, *settings, *endpoint, *backup, manifest));
  if (auto ok = copy_files(options, *settings, config_path(target), *backup); !ok)
    return tl::unexpected(ok.error());
  manifest.ended = wall_now();
  FRESHET_TRY(finished, backup->finish(std::move(manifest)));
  if (options.json) {
    report_json([&](json::Writer& out) {
      write_summary(out, *finished);
      out.key("left_out").integer(*foreign_keys);
    });
    return 0;
  }
  print_summary(*finished);
  if (*foreign_keys > 0)
    ctl::print("not saved: {} keys with the prefix that are not Freshet's\n", format_number(*foreign_keys));
  return 0;
}

}  // namespace freshet::ctl
