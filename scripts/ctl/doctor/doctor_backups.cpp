// Checks the age of the backups.
#include <fmt/format.h>

#include "scripts/ctl/backup/manifest.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

constexpr seconds kBackupOld{3 * 86400};  // made nightly; one may fail

// The manifest of a backup whose files all exist with the listed size. nullopt: not a complete
// backup.
std::optional<Manifest> read_complete_manifest(const fs::path& folder) {
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

void check_backups(const std::string& folder, UnixSeconds now, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.backup";
  if (folder.empty()) return out.skipped(kCheck, "--backups DIR is not given");
  const std::string fix = fmt::format("run `freshetctl backup {}/$(date +%F)` every night", folder);
  std::optional<Manifest> newest;
  fs::path newest_path;
  std::error_code error;
  for (const auto& each : fs::directory_iterator(folder, error)) {
    if (each.path().extension() == ".partial") continue;
    auto manifest = read_complete_manifest(each.path());
    if (!manifest || (newest && newest->began >= manifest->began)) continue;
    newest = std::move(manifest);
    newest_path = each.path();
  }
  if (error == std::errc::permission_denied) return out.skipped(kCheck, folder + ": " + error.message());
  if (error) return out.warn(kCheck, folder + ": " + error.message(), fix);
  if (!newest) return out.warn(kCheck, "no complete backup in " + folder, fix);
  const seconds age = now - newest->began;
  if (age > kBackupOld)
    return out.warn(
        kCheck,
        fmt::format("the newest backup, {}, is {} days old", newest_path.string(), age / seconds(86400)),
        fix);
  out.ok(kCheck, fmt::format("{} items in {}, made {} h ago", format_number(newest->items),
                             newest_path.string(), age / seconds(3600)));
}

}  // namespace freshet::ctl
