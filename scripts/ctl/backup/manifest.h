// manifest.json of a backup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kDatabaseName = "freshet.db";
inline constexpr std::string_view kRedisName = "redis.dump";
inline constexpr std::string_view kModelName = "freshet.model";
inline constexpr std::string_view kConfigFolder = "config";
// Other formats are rejected, except that of the previous schema of Redis, which restore converts
// (convert_dump.h).
inline constexpr std::int64_t kBackupFormat = 3, kConvertibleBackupFormat = 2;

struct BackupFile {
  std::string name;  // relative to the folder
  std::int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};

struct Manifest {
  std::int64_t format = kBackupFormat;
  std::string version;  // version of Freshet
  // Database::backup_ids() of the saved database has it. "": the id could not be stored there.
  // None: made by a version without ids.
  std::optional<std::string> id;
  UnixSeconds began, ended;  // each part of the backup is a snapshot from between the two
  std::int64_t schema = 0;   // schema version of the database
  std::int64_t items = 0;    // in the database
  std::string server;        // that was saved: "Valkey 8.1.1"
  std::string key_prefix;
  std::int64_t keys = 0;
  std::vector<BackupFile> files;

  bool has(std::string_view name) const;
};

std::string manifest_json(const Manifest& manifest);
// Errors: kInvalid "bad_backup", with the offending member in the detail.
Result<Manifest> parse_manifest(std::string text);

}  // namespace freshet::ctl
