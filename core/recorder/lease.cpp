#include "core/recorder/lease.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <utility>

#include "core/base/redis_clock.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::recorder {
namespace {

using redis::Pipeline;
using redis::string_at;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// Identifies the scope of pids: the machine and the pid namespace. "" if unknown. (A container may
// have no machine-id, and the shipped sandbox hides /proc/sys.)
std::string pid_namespace() {
  std::string machine;
  for (const char* const file : {"/etc/machine-id", "/proc/sys/kernel/random/boot_id"}) {
    std::ifstream stream(file);
    if (std::getline(stream, machine) && !machine.empty()) break;
  }
  std::array<char, 64> space{};
  const auto length = readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return machine.empty() || length <= 0 ? std::string() : machine + " " + space.data() + " ";
}

// `process`: as stored by acquire(). Returns false if unknown.
bool is_dead_process(std::string_view process) {
  const std::string scope = pid_namespace();
  if (scope.empty() || !process.starts_with(scope)) return false;
  const auto pid = redis::parse_or_zero<pid_t>(process.substr(scope.size()));
  return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

std::string describe_owner(std::string_view holder) {
  return holder.empty() ? std::string("an unknown recorder") : std::string(holder);
}

// Runs the command, and updates the offset to Redis' clock.
Result<redis::Replies> call_and_sync_clock(redis::BlockingRedis& redis, Pipeline command) {
  command.add("TIME");
  const auto asked_at = since_boot();
  auto replies = redis.call_all(command);
  if (!replies) return replies;
  if (const auto now = redis::parse_time(replies->back())) update_redis_clock(*now, asked_at);
  return replies;
}

}  // namespace

Lease::Lease(const redis::Keys& keys, milliseconds ttl) : key_(keys.recorder_lease()), ttl_(ttl) {
  for (const redis::PartitionKeys& each : keys.partitions()) fence_keys_.push_back(each.fence());
}

Result<redis::Replies> Lease::request(redis::BlockingRedis& redis, const std::string& identity,
                                      std::uint64_t known_token, const std::string& replaced_identity,
                                      std::uint64_t dead_token) const {
  const std::string pid = std::to_string(getpid());
  Pipeline command;
  command.script(scripts::kLeaseTake).key(key_).arg(host_name() + ", pid " + pid).arg(pid_namespace() + pid);
  command.arg(identity)
      .arg(replaced_identity.empty() ? last_identity_ : replaced_identity)
      .arg(known_token)
      .arg(dead_token)
      .arg(ttl_.count());
  command.arg(was_refused_ ? 1 : 0);
  return call_and_sync_clock(redis, std::move(command));
}

Result<void> Lease::acquire(redis::BlockingRedis& redis, const std::string& identity,
                            std::uint64_t known_token, const std::string& replaced_identity) {
  known_token = std::max(known_token, highest_fence_);
  FRESHET_TRY(replies, request(redis, identity, known_token, replaced_identity, token_));
  if ((*replies)[0][0].integer() == 0 && is_dead_process(string_at((*replies)[0], 2))) {
    const auto dead_token = static_cast<std::uint64_t>((*replies)[0][3].integer().value_or(0));
    auto again = request(redis, identity, known_token, replaced_identity, dead_token);
    if (!again) return tl::unexpected(again.error());
    *replies = std::move(*again);
  }
  const redis::Reply& reply = replies->front();
  const std::int64_t token = reply[0].integer().value_or(0);
  was_refused_ = token < 0;
  if (token < 0)
    return fail(ErrorCode::kConflict, "database_mismatch", {},
                "Redis belongs to another database, last used by " + describe_owner(string_at(reply, 1)));
  if (token == 0)
    return fail(ErrorCode::kConflict, "lease_held", {},
                "the lease is held by " + describe_owner(string_at(reply, 1)));
  token_ = static_cast<std::uint64_t>(token);
  last_identity_ = identity;
  return raise_fences(redis);
}

// A higher token belongs to a later holder, or Redis has lost tokens that its fences still have.
Result<void> Lease::raise_fences(redis::BlockingRedis& redis) {
  Pipeline commands;
  for (const std::string& each : fence_keys_) commands.script(scripts::kFence).key(each).arg(token_);
  FRESHET_TRY(replies, redis.call_all(commands));
  for (const redis::Reply& each : *replies)
    highest_fence_ = std::max(highest_fence_, static_cast<std::uint64_t>(each.integer().value_or(0)));
  if (highest_fence_ <= token_) return {};
  return fail(ErrorCode::kUnavailable, "lease_lost", {}, "a stream's fence has a higher token");
}

void Lease::append_renewal(Pipeline& out, milliseconds ttl) const {
  out.script(scripts::kLeaseRenew).key(key_).arg(token_).arg(ttl.count());
}

Result<void> Lease::renew(redis::BlockingRedis& redis) const {
  Pipeline command;
  append_renewal(command);
  const auto replies = call_and_sync_clock(redis, std::move(command));
  return replies ? Result<void>() : tl::unexpected(replies.error());
}

void Lease::release(redis::BlockingRedis& redis) const {
  if (token_ == 0) return;
  Pipeline command;
  append_renewal(command, milliseconds(0));
  (void)redis.call(command);  // if this fails, the lease expires
}

LeaseKeepAlive::LeaseKeepAlive(const Lease& lease, redis::Endpoint endpoint)
    : lease_(lease),
      redis_(std::move(endpoint), lease.ttl() / 3, redis::kAllScripts),
      thread_([this] { run(); }) {}

LeaseKeepAlive::~LeaseKeepAlive() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakeup_.notify_one();
  thread_.join();
  lease_.release(redis_);
}

void LeaseKeepAlive::run() {
  std::unique_lock lock(mutex_);
  while (!wakeup_.wait_for(lock, lease_.ttl() / 3, [this] { return stopping_; })) (void)lease_.renew(redis_);
}

Result<LeaseOwner> read_lease_owner(redis::BlockingRedis& redis, const redis::Keys& keys) {
  Pipeline command;
  command.add("HMGET", keys.recorder_lease(), "holder", "database", "till").add("TIME");
  FRESHET_TRY(replies, redis.call_all(command));
  const redis::Reply &lease = (*replies)[0], &time = (*replies)[1];
  const auto now = 1000 * redis::parse_or_zero<std::int64_t>(string_at(time, 0)) +
                   redis::parse_or_zero<std::int64_t>(string_at(time, 1)) / 1000;
  return LeaseOwner{std::string(string_at(lease, 0)), std::string(string_at(lease, 1)),
                    redis::parse_or_zero<std::int64_t>(string_at(lease, 2)) > now};
}

}  // namespace freshet::recorder
