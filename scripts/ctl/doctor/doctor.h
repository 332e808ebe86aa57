// freshetctl doctor: checks whether a deployment meets the service's requirements and names a fix
// for each problem. Read-only.
//
// Collecting facts and evaluating them are separate functions, so tests can evaluate facts that no
// test machine produces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/recorder/lease.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/commands/target.h"
#include "scripts/ctl/doctor/diagnoses.h"

namespace freshet::ctl {

struct DoctorOptions {
  bool json = false;
  std::string user;  // account of the service; empty: pm's `user`, else the owner of the database's folder
  std::string nginx = "nginx";  // program to run; empty: skip the nginx checks
  std::string backups;          // folder of the backups; empty: skip the check
};

// --- Redis

// Redis' answers. nullopt: the ACL denied the command, so there is no verdict.
struct RedisFacts {
  std::string server;       // redis::server_name(); "": not permitted
  std::string unsupported;  // redis::check_server_version()'s sentence; "": supported
  std::map<std::string, std::string, std::less<>> info;        // INFO, by line
  std::map<std::string, std::string, std::less<>> directives;  // CONFIG GET, by directive
  std::optional<milliseconds> ping;                            // median round trip
  std::optional<milliseconds> clock_offset;                    // Redis' clock minus ours
  std::optional<std::int64_t> stream_length;                   // sum over all partitions' streams
  std::int64_t longest_stream = 0;                             // entries in the longest of them
  std::optional<milliseconds> oldest_entry_age;    // age of the oldest entry in any stream; 0: all are empty
  bool has_consumer_group = false;                 // true when every stream has the recorder's consumer group
  std::optional<recorder::LeaseOwner> recorder;    // current recorder, or the last one
  std::vector<std::string> hosts_pending_erasure;  // hosts that have not confirmed the last erasure
  std::optional<milliseconds> last_erasure;        // when it was requested, Unix time
  std::vector<std::string> most_read_unverified;   // unverified articles, most read first
  std::int64_t unverified_count = 0;
};

// TIME's reply as Unix milliseconds.
std::optional<std::int64_t> parse_time_ms(const redis::Reply& reply);
// About 26 RTT. Errors: Redis is unreachable or denies the login.
Result<RedisFacts> collect_redis_facts(redis::BlockingRedis& redis, const Settings& settings);
void evaluate_redis(const RedisFacts& facts, const Settings& settings, Diagnoses& out);
// The part of collect_redis_facts() and evaluate_redis() about the streams and the recorder. 2 RTT.
Result<void> collect_recorder_facts(redis::BlockingRedis& redis, const Settings& settings, RedisFacts& facts);
void evaluate_recorder(const RedisFacts& facts, const Settings& settings, Diagnoses& out);

// --- Redis Cluster
struct MasterFacts {
  std::string name;    // "192.0.2.1:6379"
  std::string server;  // redis::server_name()
  std::string maxmemory;
  bool has_replica = false;
  bool full_coverage = false;  // cluster-require-full-coverage
  std::size_t partitions = 0;  // partitions whose keys live there (core/redis/partitions)
};
struct ClusterFacts {
  std::size_t uncovered_slots = 0;  // slots without a master
  std::vector<MasterFacts> masters;
  std::vector<std::string> unreachable_masters;  // masters that do not answer
};
// 1 RTT, and 1 to each master. Errors: as collect_redis_facts().
Result<ClusterFacts> collect_cluster_facts(redis::BlockingRedis& redis, const redis::Endpoint& endpoint,
                                           unsigned partitions);
void evaluate_cluster(const ClusterFacts& facts, Diagnoses& out);

// Compares the items of Redis with those of the database.
struct ItemFacts {
  std::int64_t items = 0;         // in the database
  std::int64_t missing = 0;       // of these, neither stored in Redis nor recently deleted there
  std::int64_t data_lost_at = 0;  // Unix seconds when the recorder recorded a data loss; 0: none
  std::string other_owner;        // recorder whose database owns this Redis, when it is not ours; else empty
};
// O(items). Errors: Redis' and the database's.
Result<ItemFacts> collect_item_facts(redis::BlockingRedis& redis, database::Database& database,
                                     const Settings& settings);
void evaluate_items(const ItemFacts& facts, Diagnoses& out);

// Permissions of the service's Redis account.
struct AccountFacts {
  std::string name;
  std::vector<std::string> missing;  // commands and keys that the service needs and the account may not use
  std::vector<std::string> excess;   // permitted commands that the service never uses: "FLUSHALL"
};

// `service` carries the service's own name and password. Executes nothing. 3 RTT. Errors: Redis is
// unreachable or denies the login.
Result<AccountFacts> collect_account_facts(const redis::Endpoint& service, const Settings& settings);
// The same for any account, of only what it lacks of the service's commands and `more_commands`
// ("XDEL K 0", with K for a key). Sends nothing that should be denied, so ACL LOG stays empty.
Result<AccountFacts> collect_missing_rights(const redis::Endpoint& endpoint, const Settings& settings,
                                            std::span<const char* const> more_commands);
// The first names, separated by commas, and how many more there are.
std::string join_names(const std::vector<std::string>& names);
void evaluate_account(const AccountFacts& facts, Diagnoses& out);

// --- Files

struct Account {
  std::string name;
  unsigned uid = 0, gid = 0;
  std::vector<unsigned> groups;  // including the primary group
};
// nullopt: no such account.
std::optional<Account> find_account(const std::string& name);
// An account without a name is called "uid N".
Account account_by_uid(unsigned uid);
// Evaluates the mode bits of the path and of every parent folder, ignoring ACLs and root's
// override. `access_mode`: a combination of R_OK, W_OK and X_OK.
bool has_access(const Account& account, const std::filesystem::path& path, int access_mode);

// Checks permissions and schema versions of secrets, folders, database, index and model. O(bytes of
// the model).
void check_files(const Settings& settings, const Account& service, UnixSeconds now, Diagnoses& out);
// Evaluates the free bytes of a file system that holds Freshet's data.
void evaluate_disk_space(std::string_view label, const std::string& path, std::uint64_t free,
                         std::uint64_t total, Diagnoses& out);
// Checks the configuration file itself, which may contain a password.
void check_config(const Settings& settings, const std::string& path, Diagnoses& out);
// Checks the age of the newest complete backup in `folder`. Reads manifests and file sizes only;
// `freshetctl backup --verify` reads the contents.
void check_backups(const std::string& folder, UnixSeconds now, Diagnoses& out);
// `peer`: the account that connects, nginx's.
void check_socket(const Settings& settings, const std::optional<Account>& peer, Diagnoses& out);

// Sends one request to pm.status_listen as nginx would. Blocks for a few seconds at most.
void check_status_socket(const Settings& settings, Diagnoses& out);

// --- nginx

// Output of `nginx -T`. `state`: Target::state, whose nginx.conf is then used. Errors: kNotFound
// "no_nginx"; kUnavailable "nginx_refused".
Result<std::string> nginx_dump(const std::string& program, const std::string& state);
void evaluate_nginx(const std::string& dump, const Settings& settings, Diagnoses& out);
// Reads the last MiB of the public server's access logs, whose paths are in the dump.
void check_networks(const std::string& dump, Diagnoses& out);
// Warns if nearly all requests of an access log (format `freshet` or `combined`) come from one
// network, as behind a proxy that set_real_ip_from does not name.
void evaluate_networks(std::string_view log, Diagnoses& out);
// Account of nginx's workers, from the directive `user`. nullopt if it is not set: workers then run
// under the account that started nginx.
std::optional<std::string> nginx_user(const std::string& dump);

// Returns the exit status: 1 when there is an error finding. Never fails; what cannot be checked is
// a finding.
Result<int> run_doctor(const DoctorOptions& options, const Target& target);

}  // namespace freshet::ctl
