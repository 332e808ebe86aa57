// What a backup says of itself: manifest.json.
#pragma once

#include <cstdint>
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
inline constexpr std::int64_t kBackupFormat = 1;  // a later one is refused

struct BackupFile {
  std::string name;  // within the folder
  std::int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};

struct Manifest {
  std::int64_t format = kBackupFormat;
  std::string version;       // of Freshet
  UnixSeconds began, ended;  // everything is as it was at some moment between the two
  std::int64_t schema = 0;   // of the database
  std::int64_t items = 0;    // in it
  std::string redis_version, key_prefix;
  std::int64_t keys = 0;
  std::vector<BackupFile> files;

  bool has(std::string_view name) const;
};

std::string manifest_json(const Manifest& manifest);
// Error: kInvalid "bad_backup", with the member at fault in the detail.
Result<Manifest> parse_manifest(std::string text);

}  // namespace freshet::ctl
