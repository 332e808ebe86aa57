// Checks files, folders, the search index, the model and the listening socket.
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
#include "scripts/ctl/doctor/fastcgi_client.h"
#include "scripts/ctl/doctor/sock_diag.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSpaceError = 100UL << 20, kSpaceWarning = 1UL << 30;  // bytes
constexpr seconds kModelOld{2 * 86400};                                        // trained nightly

std::optional<struct stat> stat_file(const fs::path& path) {
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

// As in the kernel, the first matching class decides: owner, group, others.
bool mode_allows(const Account& account, const struct stat& file, int access_mode) {
  const auto bits = static_cast<int>(file.st_mode);
  if (file.st_uid == account.uid) return (bits >> 6 & access_mode) == access_mode;
  const bool in_group = file.st_gid == account.gid || std::ranges::count(account.groups, file.st_gid) > 0;
  return ((in_group ? bits >> 3 : bits) & access_mode) == access_mode;
}

std::string mode_of(const struct stat& file) {
  const auto owner = account_by_uid(file.st_uid).name;
  const group* const entry = getgrgid(file.st_gid);
  return fmt::format("{}:{} {:04o}", owner, entry ? entry->gr_name : std::to_string(file.st_gid),
                     file.st_mode & 07777U);
}

void check_secret(std::string_view directive, const std::string& path, Diagnoses& out) {
  if (path.empty()) return;
  const auto file = stat_file(path);
  if (!file) return;  // reported by the configuration check
  if ((file->st_mode & (S_IROTH | S_IWOTH)) != 0)
    return out.error(
        "files.secret", fmt::format("{} {} is accessible to all users ({})", directive, path, mode_of(*file)),
        fmt::format("run `chmod 0600 {}` and replace the secret, which may have been read", path));
  if (file->st_size == 0)
    return out.error("files.secret", fmt::format("{} {} is empty", directive, path),
                     fmt::format("run `head -c 32 /dev/urandom | base64 > {}`", path));
  out.ok("files.secret", fmt::format("{} {} ({})", directive, path, mode_of(*file)));
}

void check_secrets(const Settings& settings, Diagnoses& out) {
  if (settings.identity.salt_file.empty())
    out.warn("files.secret",
             "identity.salt_file is not set: after each restart every anonymous visitor counts as a new one",
             "write 32 random bytes to a file in /etc/freshet/secrets and set identity.salt_file to it");
  check_secret("identity.salt_file", settings.identity.salt_file, out);
  check_secret("redis.password_file", settings.redis.password_file, out);
  check_secret("redis.sentinel_password_file", settings.redis.sentinel_password_file, out);
  for (const auto& [kid, path] : settings.identity.token_key_files)
    check_secret("identity.token_keys." + kid, path, out);
  for (const auto& [kid, path] : settings.identity.internal_key_files)
    check_secret("identity.internal_keys." + kid, path, out);
}

// Returns false if there is no such folder; wrong permissions are only reported.
bool check_folder(std::string_view label, const fs::path& path, const Account& service, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.folder";
  const auto folder = stat_file(path);
  if (!folder || !S_ISDIR(folder->st_mode)) {
    out.error(kCheck, fmt::format("{} {} is not a folder", label, path.string()),
              fmt::format("run `install -d -o {} -m 0750 {}`", service.name, path.string()));
    return false;
  }
  const std::string description = fmt::format("{} {} ({})", label, path.string(), mode_of(*folder));
  if (!has_access(service, path, R_OK | W_OK | X_OK)) {
    out.error(kCheck, fmt::format("{} is not writable for {}", description, service.name),
              fmt::format("run `chown {} {} && chmod u+rwx {}`", service.name, path.string(), path.string()));
  } else if ((folder->st_mode & S_IWOTH) != 0) {
    out.error(kCheck, description + " is writable for all users",
              fmt::format("run `chmod o-w {}`", path.string()));
  } else {
    out.ok(kCheck, description);
  }
  return true;
}

void check_disk_space(const std::vector<std::pair<std::string_view, fs::path>>& folders, Diagnoses& out) {
  std::set<dev_t> seen;
  for (const auto& [label, path] : folders) {
    const auto folder = stat_file(path);
    struct statvfs space {};
    if (!folder || !seen.insert(folder->st_dev).second || statvfs(path.c_str(), &space) != 0) continue;
    evaluate_disk_space(label, path.string(), space.f_bavail * space.f_frsize,
                        space.f_blocks * space.f_frsize, out);
  }
}

void check_database(const Settings& settings, const Account& service, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.database";
  const std::string& path = settings.recorder.database;
  const auto file = stat_file(path);
  if (!file)
    return out.warn(kCheck, path + " does not exist yet", "start the service; its recorder creates it");
  if (!has_access(service, path, R_OK | W_OK))
    return out.error(kCheck,
                     fmt::format("{} ({}) is not writable for {}", path, mode_of(*file), service.name),
                     fmt::format("run `chown {} {}*`", service.name, path));
  const auto opened = database::Database::open(path, database::Database::Mode::kRead);
  if (opened)
    return out.ok(kCheck, fmt::format("{} items in {}", format_number((*opened)->item_count()), path));
  const Error& error = opened.error();
  const std::string message = fmt::format("{}: {}: {}", path, error.reason, error.detail);
  if (error.reason == "database_newer")
    return out.error(kCheck, message, "install the version of Freshet that wrote it, or a later one");
  if (error.reason == "database_absent")
    return out.warn(kCheck, message, "start the service; its recorder migrates it to this version");
  out.error(kCheck, message,
            "stop the service, restore the file from a backup, then run `freshetctl rebuild-redis`");
}

void check_index(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.index";
  const std::string& path = settings.search.index;
  try {
    const search::IndexFolder folder(path);
    const auto parts = folder.slices();
    for (const search::TimeSlice& each : parts.value_or(std::vector<search::TimeSlice>())) {
      if (stat_file(folder.path_of(each))) continue;
      return out.error(kCheck, folder.path_of(each) + " is missing from the index",
                       "run `freshetctl reindex`");
    }
    if (parts) return out.ok(kCheck, fmt::format("{} time slices in {}", parts->size(), path));
    out.warn(kCheck, "no index in " + path,
             "run `freshetctl reindex` (the recorder only creates an empty index)");
  } catch (const std::exception& error) {
    out.error(kCheck, fmt::format("{}: {}", path, error.what()), "run `freshetctl reindex`");
  }
}

// Queries each shard as a worker would.
void check_shards(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "search.shards";
  if (settings.search.shards.empty() && !settings.recorder.enabled)
    return out.warn(kCheck,
                    "no index on this host and search.shards is not set: feeds only have hot and new items",
                    "set search.shards = [\"ADDRESS:7007\"] and start freshet-search@ADDRESS.service on the "
                    "recorder's host");
  for (const std::string& each : settings.search.shards) {
    Settings one = settings;
    one.search.shards = {each};
    const auto documents = feed::BlockingRecall(one).document_count();
    if (documents) {
      out.ok(kCheck,
             fmt::format("{} documents at {}", format_number(static_cast<std::int64_t>(*documents)), each));
    } else {
      out.error(kCheck, fmt::format("{}: {}", each, documents.error().detail),
                "check freshet-search@ADDRESS on that host; its IPAddressAllow= must list this host");
    }
  }
}

void check_published_model(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.published";
  const auto ours = model::read_checksum(settings.recommend.model);
  if (settings.train.publish_folder.empty() || !ours) return;
  const fs::path copy = fs::path(settings.train.publish_folder) / model::kPublishedName;
  const auto file = stat_file(copy);
  if (!file || model::read_checksum(copy) != ours)
    return out.warn(kCheck, copy.string() + " is not this host's model: other hosts fetch an old one or none",
                    "run `freshetctl train`");
  if ((file->st_mode & S_IROTH) == 0)
    return out.error(kCheck, fmt::format("{} ({}) is not readable for nginx", copy.string(), mode_of(*file)),
                     fmt::format("run `chmod 0644 {}`", copy.string()));
  out.ok(kCheck, fmt::format("{} ({})", copy.string(), mode_of(*file)));
}

// Returns whether `freshetctl train` can train: two items have interactions, or this process cannot
// tell.
bool can_train(const Settings& settings) {
  const auto opened = database::Database::open(settings.recorder.database, database::Database::Mode::kRead);
  if (!opened) return true;
  std::set<ItemId> items;
  const auto read = (*opened)->readers().for_each_interaction([&](const readers::ReaderEvent& each) {
    items.insert(each.item);
    return items.size() < 2 ? Result<void>() : fail(ErrorCode::kConflict, "enough_items");
  });
  return !read;
}

void check_model(const Settings& settings, const Account& service, UnixSeconds now, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.model";
  const std::string& path = settings.recommend.model;
  const bool fetched = !settings.recommend.model_source.empty();
  const std::string timer = fetched ? "freshet-fetch-model" : "freshet-train";
  const std::string command = fetched ? "freshetctl fetch-model" : "freshetctl train";
  const std::string train = fmt::format("run `{}` and `systemctl enable --now {}.timer`", command, timer);
  const auto copy = model::copy_model(path);
  const bool is_absent = !copy && copy.error().reason == "model_absent";
  if (is_absent && !fetched && !can_train(settings))
    return out.ok(kCheck, "no model yet: fewer than two items have interactions to train with");
  if (is_absent)
    return out.warn(kCheck, path + " does not exist: recommendations are based on trends only", train);
  if (!copy && copy.error().reason == "model_no_space") return out.skipped(kCheck, copy.error().detail);
  if (!copy)
    return out.error(kCheck, fmt::format("{}: {}: {}", path, copy.error().reason, copy.error().detail),
                     fmt::format("run `{}`", command));
  if (!has_access(service, path, R_OK))
    return out.error(kCheck, fmt::format("{} is not readable for {}", path, service.name),
                     fmt::format("run `chown {} {}`", service.name, path));
  const auto age = now - copy->model->trained_at();
  if (age > kModelOld)
    return out.warn(kCheck, fmt::format("{} was trained {} days ago", path, age / seconds(86400)),
                    fmt::format("check `systemctl status {0}.timer {0}.service`", timer));
  out.ok(kCheck,
         fmt::format("{} items in {}, trained {} h ago", copy->model->items(), path, age / seconds(3600)));
  const model::ChosenRanking ranking = copy->model->ranking();
  if (ranking.method == model::RankingMethod::kTrend)
    out.ok("files.ranking",
           fmt::format("recommendations are by trend alone ({}): on this site's past no ranking that "
                       "knows the reader was clearly better",
                       ranking_name(ranking)));
  else
    out.ok("files.ranking", "recommendations: " + ranking_name(ranking));
}

// False if connections to the socket are refused. The kernel's list of listeners has only those of
// this network namespace, and a container may connect to a socket of another one.
bool has_listener(const std::string& path, const Result<ListenQueue>& queue) {
  if (queue || queue.error().reason != "no_socket") return true;
  constexpr milliseconds kPingTimeout{1000};
  const auto reply = fastcgi_get(path, "/ping", kPingTimeout);
  return reply || reply.error().reason != "no_listener";
}

}  // namespace

void check_config(const Settings& settings, const std::string& path, Diagnoses& out) {
  if (settings.engagement.dwell_prior_views == 0)
    out.ok("config.dwell",
           "hot.dwell_prior_views is 0 (plain mean); on a public site 5 with hot.dwell_prior = 30000 is more "
           "robust");
  const auto file = stat_file(path);
  const auto redis = redis::parse_url(settings.redis.url);
  if (!file || !redis || redis->password.empty() || (file->st_mode & S_IROTH) == 0) return;
  out.error("files.secret",
            fmt::format("{} ({}) contains Redis' password in redis.url and is readable for all users", path,
                        mode_of(*file)),
            "move the password to a file with mode 0600 (redis.password_file) and change it");
}

std::optional<Account> find_account(const std::string& name) {
  const passwd* const entry = getpwnam(name.c_str());
  if (!entry) return std::nullopt;
  return account_from(*entry);
}

Account account_by_uid(unsigned uid) {
  if (const passwd* const entry = getpwuid(uid)) return account_from(*entry);
  return {fmt::format("uid {}", uid), uid, uid, {}};
}

bool has_access(const Account& account, const fs::path& path, int access_mode) {
  const fs::path absolute_path = fs::absolute(path);
  for (fs::path above = absolute_path.parent_path();; above = above.parent_path()) {
    const auto folder = stat_file(above);
    if (!folder || !mode_allows(account, *folder, X_OK)) return false;
    if (above == above.parent_path()) break;
  }
  const auto file = stat_file(absolute_path);
  return file && mode_allows(account, *file, access_mode);
}

void evaluate_disk_space(std::string_view label, const std::string& path, std::uint64_t free,
                         std::uint64_t total, Diagnoses& out) {
  constexpr std::string_view kCheck = "files.space";
  const std::string message =
      fmt::format("{} MiB of {} MiB are free under {} {}", free >> 20, total >> 20, label, path);
  const std::string fix =
      "free space or move the data to a larger disk; a full disk stops the recorder and the spool";
  if (free < kSpaceError) return out.error(kCheck, message, fix);
  if (free < kSpaceWarning || free < total / 20) return out.warn(kCheck, message, fix);
  out.ok(kCheck, message);
}

void check_files(const Settings& settings, const Account& service, UnixSeconds now, Diagnoses& out) {
  check_secrets(settings, out);
  std::vector<std::pair<std::string_view, fs::path>> folders;
  const fs::path spool = settings.spool.path;
  if (!stat_file(spool) && has_access(service, spool.parent_path(), W_OK | X_OK))
    out.ok("files.folder", fmt::format("spool.path {} will be created when it is needed", spool.string()));
  else
    folders.emplace_back("spool.path", spool);
  if (settings.recorder.enabled) {
    folders.emplace_back("the folder of recorder.database",
                         fs::path(settings.recorder.database).parent_path());
    folders.emplace_back("search.index", settings.search.index);
  }
  std::erase_if(folders,
                [&](const auto& each) { return !check_folder(each.first, each.second, service, out); });
  check_disk_space(folders, out);
  if (settings.recorder.enabled) {
    check_database(settings, service, out);
    check_index(settings, out);
  } else {
    out.skipped("files.database", "the recorder runs on another host (recorder.enabled = false)");
  }
  check_shards(settings, out);
  check_model(settings, service, now, out);
  check_published_model(settings, out);
}

void check_socket(const Settings& settings, const std::optional<Account>& peer, Diagnoses& out) {
  constexpr std::string_view kCheck = "socket";
  const std::string& path = settings.pool.listen;
  if (!path.starts_with('/')) return out.skipped(kCheck, path + " is not a unix socket");
  const auto file = stat_file(path);
  const auto queue = listen_queue(path);
  if (!file || !S_ISSOCK(file->st_mode) || !has_listener(path, queue))
    return out.error(
        kCheck, "no listener on " + path,
        "run `systemctl enable --now freshet.socket freshet.service`; see `journalctl -u freshet`");
  const std::string description = fmt::format("{} ({})", path, mode_of(*file));
  if ((file->st_mode & S_IWOTH) != 0)
    return out.error(kCheck, description + ": any local user can connect and impersonate any reader",
                     "set listen.mode = 0o660, or SocketMode=0660 in freshet.socket");
  if (peer && !has_access(*peer, path, R_OK | W_OK))
    return out.error(kCheck,
                     fmt::format("{} is not writable for {}, which nginx runs as", description, peer->name),
                     "set listen.group (or SocketGroup= in freshet.socket) to a group of nginx's user");
  if (queue && queue->limit < static_cast<std::uint32_t>(settings.pool.listen_backlog))
    return out.warn(kCheck,
                    fmt::format("{} queues at most {} connections, but listen.backlog is {}", description,
                                queue->limit, settings.pool.listen_backlog),
                    "raise Backlog= in freshet.socket and net.core.somaxconn, which also limit it");
  out.ok(kCheck,
         queue ? fmt::format("{}, {} of {} connections queued", description, queue->waiting, queue->limit)
               : description);
}

}  // namespace freshet::ctl
