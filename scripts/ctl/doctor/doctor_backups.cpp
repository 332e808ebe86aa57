// The doctor's look at the backups.
#include <fmt/format.h>

#include "scripts/ctl/backup/manifest.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

constexpr seconds kBackupOld{3 * 86400};  // it is made every night, and may fail once

// The manifest of a folder that has every file of the size it says; nullopt: it is no whole backup.
std::optional<Manifest> whole_backup(const fs::path& folder) {
  auto text = read_file((folder / kManifestName).string());
  if (!text) return std::nullopt;
  auto manifest = parse_manifest(std::move(*text));
  if (!manifest || !manifest->has(kDatabaseName) || !manifest->has(kRedisName)) return std::nullopt;
  for (const BackupFile& each : manifest->files) {
    std::error_code absent;
    const auto bytes = fs::file_size(folder / each.name, absent);
    if (absent || static_cast<std::int64_t>(bytes) != each.bytes) return std::nullopt;
  }
  return std::move(*manifest);
}

}  // namespace

void look_at_backups(const std::string& folder, UnixSeconds now, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.backup";
  if (folder.empty()) return out.not_looked(kCheck, "--backups DIR says where they are made");
  const std::string cure = fmt::format("freshetctl backup {}/$(date +%F), every night", folder);
  std::optional<Manifest> newest;
  fs::path of_newest;
  std::error_code error;
  for (const auto& each : fs::directory_iterator(folder, error)) {
    if (each.path().extension() == ".partial") continue;
    auto manifest = whole_backup(each.path());
    if (!manifest || (newest && newest->began >= manifest->began)) continue;
    newest = std::move(manifest);
    of_newest = each.path();
  }
  if (error == std::errc::permission_denied) return out.not_looked(kCheck, folder + ": " + error.message());
  if (error) return out.warn(kCheck, folder + ": " + error.message(), cure);
  if (!newest) return out.warn(kCheck, "there is no whole backup in " + folder, cure);
  const seconds age = now - newest->began;
  if (age > kBackupOld)
    return out.warn(
        kCheck,
        fmt::format("the newest backup, {}, is {} days old", of_newest.string(), age / seconds(86400)), cure);
  out.ok(kCheck, fmt::format("{} items in {}, made {} h ago", grouped(newest->items), of_newest.string(),
                             age / seconds(3600)));
}

}  // namespace freshet::ctl
