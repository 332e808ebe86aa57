// The doctor's look at what lies on disk, and at the socket.
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <set>

#include "core/database/database.h"
#include "core/feed/recall.h"
#include "core/model/model_copy.h"
#include "core/model/replace_model.h"
#include "core/search/index_folder.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/doctor/sock_diag.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSpaceError = 100UL << 20, kSpaceWarning = 1UL << 30;  // bytes
constexpr seconds kModelOld{2 * 86400};                                        // it is made every night

std::optional<struct stat> look(const fs::path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return std::nullopt;
  return found;
}

Account account_from(const passwd& entry) {
  Account out{entry.pw_name, entry.pw_uid, entry.pw_gid, {}};
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count);
  }
  out.groups.assign(groups.begin(), groups.begin() + count);
  return out;
}

// The first of the classes owner, group, others that fits decides, as in the kernel.
bool bits_allow(const Account& account, const struct stat& file, int wanted) {
  const auto bits = static_cast<int>(file.st_mode);
  if (file.st_uid == account.uid) return (bits >> 6 & wanted) == wanted;
  const bool in_group = file.st_gid == account.gid || std::ranges::count(account.groups, file.st_gid) > 0;
  return ((in_group ? bits >> 3 : bits) & wanted) == wanted;
}

std::string mode_of(const struct stat& file) {
  const auto owner = account_of(file.st_uid).name;
  const group* const entry = getgrgid(file.st_gid);
  return fmt::format("{}:{} {:04o}", owner, entry ? entry->gr_name : std::to_string(file.st_gid),
                     file.st_mode & 07777U);
}

void look_at_secret(std::string_view directive, const std::string& path, Diagnoses& out) {
  if (path.empty()) return;
  const auto file = look(path);
  if (!file) return;  // the configuration's own check says so
  if ((file->st_mode & (S_IROTH | S_IWOTH)) != 0)
    return out.error("files.secret",
                     fmt::format("{} {} is open to everybody ({})", directive, path, mode_of(*file)),
                     fmt::format("chmod 0600 {}, and make a new secret: this one may be known", path));
  if (file->st_size == 0)
    return out.error("files.secret", fmt::format("{} {} is empty", directive, path),
                     fmt::format("head -c 32 /dev/urandom | base64 > {}", path));
  out.ok("files.secret", fmt::format("{} {} ({})", directive, path, mode_of(*file)));
}

void look_at_secrets(const Settings& settings, Diagnoses& out) {
  if (settings.identity.salt_file.empty())
    out.warn("files.secret", "identity.salt_file is not set: at each restart every anonymous visitor is new",
             "put 32 random bytes into a file in /etc/freshet/secrets and name it in identity.salt_file");
  look_at_secret("identity.salt_file", settings.identity.salt_file, out);
  look_at_secret("redis.password_file", settings.redis.password_file, out);
  look_at_secret("redis.sentinel_password_file", settings.redis.sentinel_password_file, out);
  for (const auto& [kid, path] : settings.identity.token_key_files)
    look_at_secret("identity.token_keys." + kid, path, out);
  for (const auto& [kid, path] : settings.identity.internal_key_files)
    look_at_secret("identity.internal_keys." + kid, path, out);
}

// Whether the service may work there.
bool look_at_folder(std::string_view what, const fs::path& path, const Account& service, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.folder";
  const auto folder = look(path);
  if (!folder || !S_ISDIR(folder->st_mode)) {
    out.error(kCheck, fmt::format("{} {} is no folder", what, path.string()),
              fmt::format("install -d -o {} -m 0750 {}", service.name, path.string()));
    return false;
  }
  const std::string shown = fmt::format("{} {} ({})", what, path.string(), mode_of(*folder));
  if (!may(service, path, R_OK | W_OK | X_OK)) {
    out.error(kCheck, fmt::format("{} is not writable for {}", shown, service.name),
              fmt::format("chown {} {} && chmod u+rwx {}", service.name, path.string(), path.string()));
  } else if ((folder->st_mode & S_IWOTH) != 0) {
    out.error(kCheck, shown + " is writable for everybody", fmt::format("chmod o-w {}", path.string()));
  } else {
    out.ok(kCheck, shown);
  }
  return true;
}

void look_at_space(const std::vector<std::pair<std::string_view, fs::path>>& folders, Diagnoses& out) {
  std::set<dev_t> seen;
  for (const auto& [what, path] : folders) {
    const auto folder = look(path);
    struct statvfs space {};
    if (!folder || !seen.insert(folder->st_dev).second || statvfs(path.c_str(), &space) != 0) continue;
    judge_space(what, path.string(), space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize, out);
  }
}

void look_at_database(const Settings& settings, const Account& service, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.database";
  const std::string& path = settings.recorder.database;
  const auto file = look(path);
  if (!file) return out.warn(kCheck, path + " is not there yet", "the recorder makes it: start the service");
  if (!may(service, path, R_OK | W_OK))
    return out.error(kCheck,
                     fmt::format("{} ({}) is not writable for {}", path, mode_of(*file), service.name),
                     fmt::format("chown {} {}*", service.name, path));
  const auto opened = database::Database::open(path, database::Database::Mode::kRead);
  if (opened) return out.ok(kCheck, fmt::format("{} items in {}", grouped((*opened)->item_count()), path));
  const Error& error = opened.error();
  const std::string what = fmt::format("{}: {}: {}", path, error.reason, error.detail);
  if (error.reason == "database_newer")
    return out.error(kCheck, what, "install the version of Freshet that wrote it, or a later one");
  if (error.reason == "database_absent")
    return out.warn(kCheck, what, "start the service: the recorder brings it to this version");
  out.error(kCheck, what, "stop the service, restore the file from a backup, then freshetctl rebuild-redis");
}

void look_at_index(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.index";
  const std::string& path = settings.search.index;
  try {
    const search::IndexFolder folder(path);
    const auto parts = folder.slices();
    for (const search::TimeSlice& each : parts.value_or(std::vector<search::TimeSlice>())) {
      if (look(folder.path_of(each))) continue;
      return out.error(kCheck, folder.path_of(each) + " is missing from the index", "freshetctl reindex");
    }
    if (parts) return out.ok(kCheck, fmt::format("{} partitions in {}", parts->size(), path));
    out.warn(kCheck, "there is no index in " + path, "freshetctl reindex (the recorder makes an empty one)");
  } catch (const std::exception& error) {
    out.error(kCheck, fmt::format("{}: {}", path, error.what()), "freshetctl reindex");
  }
}

// Each asked as a worker would.
void look_at_shards(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "search.shards";
  if (settings.search.shards.empty() && !settings.recorder.enabled)
    return out.warn(
        kCheck, "there is no index here, and none elsewhere is named: feeds have what is hot and new only",
        "search.shards = [\"ADDRESS:7007\"], and freshet-search@ADDRESS.service on the host that records");
  for (const std::string& each : settings.search.shards) {
    Settings one = settings;
    one.search.shards = {each};
    const auto documents = feed::BlockingRecall(one).document_count();
    if (documents) {
      out.ok(kCheck, fmt::format("{} documents at {}", grouped(static_cast<std::int64_t>(*documents)), each));
    } else {
      out.error(kCheck, fmt::format("{}: {}", each, documents.error().detail),
                "there: systemctl status freshet-search@ADDRESS, whose IPAddressAllow= names this host");
    }
  }
}

void look_at_published(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.published";
  const auto ours = model::read_checksum(settings.recommend.model);
  if (settings.train.publish_folder.empty() || !ours) return;
  const fs::path copy = fs::path(settings.train.publish_folder) / model::kPublishedName;
  const auto file = look(copy);
  if (!file || model::read_checksum(copy) != ours)
    return out.warn(kCheck,
                    copy.string() + " is not the model of this host: others fetch none, or an old one",
                    "freshetctl train");
  if ((file->st_mode & S_IROTH) == 0)
    return out.error(kCheck, fmt::format("{} ({}) is not readable for nginx", copy.string(), mode_of(*file)),
                     fmt::format("chmod 0644 {}", copy.string()));
  out.ok(kCheck, fmt::format("{} ({})", copy.string(), mode_of(*file)));
}

void look_at_model(const Settings& settings, const Account& service, UnixSeconds now, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.model";
  const std::string& path = settings.recommend.model;
  const bool fetched = !settings.recommend.model_source.empty();
  const std::string timer = fetched ? "freshet-fetch-model" : "freshet-train";
  const std::string command = fetched ? "freshetctl fetch-model" : "freshetctl train";
  const std::string train = fmt::format("{}, and systemctl enable --now {}.timer", command, timer);
  const auto copy = model::copy_model(path);
  if (!copy && copy.error().reason == "model_absent")
    return out.warn(kCheck, path + " is not there: recommendations come from what is trending alone", train);
  if (!copy && copy.error().reason == "model_no_room") return out.not_looked(kCheck, copy.error().detail);
  if (!copy)
    return out.error(kCheck, fmt::format("{}: {}: {}", path, copy.error().reason, copy.error().detail),
                     command);
  if (!may(service, path, R_OK))
    return out.error(kCheck, fmt::format("{} is not readable for {}", path, service.name),
                     fmt::format("chown {} {}", service.name, path));
  const auto age = now - copy->model->trained_at();
  if (age > kModelOld)
    return out.warn(kCheck, fmt::format("{} was trained {} days ago", path, age / seconds(86400)),
                    fmt::format("systemctl status {0}.timer {0}.service", timer));
  out.ok(kCheck,
         fmt::format("{} items in {}, trained {} h ago", copy->model->items(), path, age / seconds(3600)));
}

}  // namespace

void look_at_config(const Settings& settings, const std::string& path, Diagnoses& out) {
  if (settings.engagement.dwell_prior_views == 0)
    out.ok("config.dwell",
           "hot.dwell_prior_views is 0, the plain mean: on the open internet 5 with hot.dwell_prior = 30000 "
           "is safer");
  const auto file = look(path);
  const auto redis = redis::parse_url(settings.redis.url);
  if (!file || !redis || redis->password.empty() || (file->st_mode & S_IROTH) == 0) return;
  out.error("files.secret",
            fmt::format("{} ({}) holds Redis' password in redis.url, and everybody can read it", path,
                        mode_of(*file)),
            "put the password into a file of mode 0600 (redis.password_file), and make a new one");
}

std::optional<Account> account_named(const std::string& name) {
  const passwd* const entry = getpwnam(name.c_str());
  if (!entry) return std::nullopt;
  return account_from(*entry);
}

Account account_of(unsigned uid) {
  if (const passwd* const entry = getpwuid(uid)) return account_from(*entry);
  return {fmt::format("uid {}", uid), uid, uid, {}};
}

bool may(const Account& account, const fs::path& path, int wanted) {
  const fs::path whole = fs::absolute(path);
  for (fs::path above = whole.parent_path();; above = above.parent_path()) {
    const auto folder = look(above);
    if (!folder || !bits_allow(account, *folder, X_OK)) return false;
    if (above == above.parent_path()) break;
  }
  const auto file = look(whole);
  return file && bits_allow(account, *file, wanted);
}

void judge_space(std::string_view what, const std::string& path, std::uint64_t free, std::uint64_t total,
                 Diagnoses& out) {
  constexpr std::string_view kCheck = "files.space";
  const std::string said =
      fmt::format("{} MiB of {} MiB are free under {} {}", free >> 20, total >> 20, what, path);
  const std::string cure =
      "free space, or move it to a larger disk; a full one stops the recorder and the spool";
  if (free < kSpaceError) return out.error(kCheck, said, cure);
  if (free < kSpaceWarning || free < total / 20) return out.warn(kCheck, said, cure);
  out.ok(kCheck, said);
}

void look_at_files(const Settings& settings, const Account& service, UnixSeconds now, Diagnoses& out) {
  look_at_secrets(settings, out);
  std::vector<std::pair<std::string_view, fs::path>> folders;
  const fs::path spool = settings.spool.path;
  if (!look(spool) && may(service, spool.parent_path(), W_OK | X_OK))
    out.ok("files.folder", fmt::format("spool.path {} is made when it is first needed", spool.string()));
  else
    folders.emplace_back("spool.path", spool);
  if (settings.recorder.enabled) {
    folders.emplace_back("the folder of recorder.database",
                         fs::path(settings.recorder.database).parent_path());
    folders.emplace_back("search.index", settings.search.index);
  }
  std::erase_if(folders,
                [&](const auto& each) { return !look_at_folder(each.first, each.second, service, out); });
  look_at_space(folders, out);
  if (settings.recorder.enabled) {
    look_at_database(settings, service, out);
    look_at_index(settings, out);
  } else {
    out.not_looked("files.database", "the recorder runs on another host (recorder.enabled)");
  }
  look_at_shards(settings, out);
  look_at_model(settings, service, now, out);
  look_at_published(settings, out);
}

void look_at_socket(const Settings& settings, const std::optional<Account>& peer, Diagnoses& out) {
  constexpr std::string_view kCheck = "socket";
  const std::string& path = settings.pool.listen;
  if (!path.starts_with('/')) return out.not_looked(kCheck, path + " is no unix socket");
  const auto file = look(path);
  const auto queue = listen_queue(path);
  const bool nobody = !queue && queue.error().reason == "no_socket";
  if (!file || !S_ISSOCK(file->st_mode) || nobody)
    return out.error(kCheck, "nobody listens on " + path,
                     "systemctl enable --now freshet.socket freshet.service; journalctl -u freshet");
  const std::string shown = fmt::format("{} ({})", path, mode_of(*file));
  if ((file->st_mode & S_IWOTH) != 0)
    return out.error(kCheck, shown + ": any local user can connect, and claim to be any reader",
                     "listen.mode = 0o660, or SocketMode=0660 in freshet.socket");
  if (peer && !may(*peer, path, R_OK | W_OK))
    return out.error(kCheck, fmt::format("{} is not writable for {}, which nginx runs as", shown, peer->name),
                     "listen.group (or SocketGroup= in freshet.socket) names a group of nginx' user");
  if (queue && queue->limit < static_cast<std::uint32_t>(settings.pool.listen_backlog))
    return out.warn(kCheck,
                    fmt::format("{} holds {} waiting connections, listen.backlog is {}", shown, queue->limit,
                                settings.pool.listen_backlog),
                    "Backlog= in freshet.socket and net.core.somaxconn bound it as well");
  out.ok(kCheck,
         queue ? fmt::format("{}, {} of {} connections wait", shown, queue->waiting, queue->limit) : shown);
}

}  // namespace freshet::ctl
