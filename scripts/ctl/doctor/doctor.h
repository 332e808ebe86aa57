// freshetctl doctor: whether a deployment is as the service needs it, and the cure where it is not.
// It changes nothing. The parts are separate so that each can be asked of facts that no test
// machine has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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
  std::string user;  // the service runs as; empty: pm's `user`, else the owner of the database's folder
  std::string nginx = "nginx";  // the program; empty: do not look
  std::string backups;          // the folder they are made in; empty: do not look
};

// --- Redis

// What it said; nullopt: it would not say (ACL), which gives no verdict.
struct RedisFacts {
  std::map<std::string, std::string, std::less<>> info;        // INFO's lines
  std::map<std::string, std::string, std::less<>> directives;  // of CONFIG GET
  std::optional<milliseconds> ping;                            // median round trip
  std::optional<milliseconds> clock_offset;                     // of ours
  std::optional<std::int64_t> stream_length;                   // of all groups' streams
  std::int64_t longest_stream = 0;                             // entries in the one that has most
  std::optional<milliseconds> oldest_entry_age;  // age of what waits longest in a stream; 0: nothing waits
  bool has_consumer_group = false;                    // a recorder has joined every stream
  std::optional<recorder::LeaseOwner> recorder;  // who records, or did last
  std::vector<std::string> hosts_pending_erasure;           // hosts that have not answered the last erasure
  std::optional<milliseconds> last_erasure;  // when it was asked for, unix time
  std::vector<std::string> most_read_unverified;         // articles that nobody vouched for, the most read first
  std::int64_t unverified_count = 0;
};

// TIME's reply as unix milliseconds.
std::optional<std::int64_t> parse_time_ms(const redis::Reply& reply);
// About 26 round trips. Errors: Redis away, or it does not let us in.
Result<RedisFacts> collect_redis_facts(redis::BlockingRedis& redis, const Settings& settings);
void evaluate_redis(const RedisFacts& facts, const Settings& settings, Diagnoses& out);
// The parts of these two that are of the stream and who reads it; 2 RTT.
Result<void> collect_recorder_facts(redis::BlockingRedis& redis, const Settings& settings, RedisFacts& facts);
void evaluate_recorder(const RedisFacts& facts, const Settings& settings, Diagnoses& out);

// A Redis Cluster.
struct MasterFacts {
  std::string name;  // "192.0.2.1:6379"
  std::string version, maxmemory;
  bool has_replica = false;
  bool full_coverage = false;  // cluster-require-full-coverage
  std::size_t partitions = 0;      // of what articles share (core/redis/partitions/partitions.h), so many lie there
};
struct ClusterFacts {
  std::size_t uncovered_slots = 0;  // slots without a master
  std::vector<MasterFacts> masters;
  std::vector<std::string> unreachable_masters;  // masters that do not answer us
};
// 1 round trip, and one to each master. Errors: as ask_redis().
Result<ClusterFacts> collect_cluster_facts(redis::BlockingRedis& redis, const redis::Endpoint& endpoint, unsigned partitions);
void evaluate_cluster(const ClusterFacts& facts, Diagnoses& out);

// Whether Redis has what the database has.
struct ItemFacts {
  std::int64_t items = 0;       // of the database
  std::int64_t missing = 0;     // of these, in Redis neither known nor just deleted
  std::int64_t data_lost_at = 0;  // unix seconds: the recorder noted a loss; 0: none
  std::string other_owner;       // whose database Redis belongs to, when it is another; else ""
};
// O(items). Errors: those of both.
Result<ItemFacts> collect_item_facts(redis::BlockingRedis& redis, database::Database& database, const Settings& settings);
void evaluate_items(const ItemFacts& facts, Diagnoses& out);

// What the service's account may there.
struct AccountFacts {
  std::string name;
  std::vector<std::string> missing;    // commands and keys that the service needs and the account may not use
  std::vector<std::string> excess;  // what it may and the service never does: "FLUSHALL"
};

// `service`: with the name and password that the service itself has. Executes nothing; three round
// trips. Errors: Redis away, or it does not let the account in.
Result<AccountFacts> collect_account_facts(const redis::Endpoint& service, const Settings& settings);
void evaluate_account(const AccountFacts& facts, Diagnoses& out);

// --- Files

struct Account {
  std::string name;
  unsigned uid = 0, gid = 0;
  std::vector<unsigned> groups;  // all of them
};
// nullopt: there is none of that name.
std::optional<Account> find_account(const std::string& name);
// The account of a uid; one without a name is called "uid N".
Account account_by_uid(unsigned uid);
// By the mode bits of the path and of every folder above it (not by ACLs), as if the account were
// not root. `wanted`: a sum of R_OK, W_OK, X_OK.
bool has_access(const Account& account, const std::filesystem::path& path, int access_mode);

// Secrets, folders, database, index, model, by their permissions and schema versions. O(bytes of
// the model).
void check_files(const Settings& settings, const Account& service, UnixSeconds now, Diagnoses& out);
// Free bytes of a file system that something of ours is on.
void evaluate_disk_space(std::string_view label, const std::string& path, std::uint64_t free, std::uint64_t total,
                 Diagnoses& out);
// The configuration's own file, which may hold a password.
void check_config(const Settings& settings, const std::string& path, Diagnoses& out);
// The age of the newest whole backup of those in `folder`. Reads manifests and sizes; the bytes are
// what `backup --verify` looks at.
void check_backups(const std::string& folder, UnixSeconds now, Diagnoses& out);
// `peer`: who connects to it, nginx.
void check_socket(const Settings& settings, const std::optional<Account>& peer, Diagnoses& out);

// Asks pm.status_listen as nginx would. Waits a few seconds at most.
void check_status_socket(const Settings& settings, Diagnoses& out);

// --- nginx

// What `nginx -T` prints, or why it does not. `state`: as Target's, whose nginx.conf is then meant.
Result<std::string> nginx_dump(const std::string& program, const std::string& state);
void evaluate_nginx(const std::string& dump, const Settings& settings, Diagnoses& out);
// The account its workers run as: the directive `user`. nullopt: as who started it, which nobody
// says.
std::optional<std::string> nginx_user(const std::string& dump);

// The exit status: 1 when something is an error. Errors: none; what cannot be seen is a finding.
Result<int> run_doctor(const DoctorOptions& options, const Target& target);

}  // namespace freshet::ctl
