#include "core/recorder/lease.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <utility>

#include "core/base/agreed_clock.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::recorder {
namespace {

using redis::Pipeline;
using redis::string_at;

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// Where pids mean what they mean here: this machine, and our namespace of pids. "": it cannot be
// told. (A container may have no machine-id, and the shipped sandbox no /proc/sys.)
std::string this_place() {
  std::string machine;
  for (const char* const file : {"/etc/machine-id", "/proc/sys/kernel/random/boot_id"}) {
    std::ifstream stream(file);
    if (std::getline(stream, machine) && !machine.empty()) break;
  }
  std::array<char, 64> space{};
  const auto length = readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return machine.empty() || length <= 0 ? std::string() : machine + " " + space.data() + " ";
}

// `process`: as take() leaves it. False when it cannot be told.
bool is_dead(std::string_view process) {
  const std::string place = this_place();
  if (place.empty() || !process.starts_with(place)) return false;
  const auto pid = redis::parse_or_zero<pid_t>(process.substr(place.size()));
  return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

std::string who_has(std::string_view holder) {
  return holder.empty() ? std::string("a recorder of which nothing is known") : std::string(holder);
}

// And agrees on the time of Redis.
Result<redis::Replies> with_time(redis::BlockingRedis& redis, Pipeline command) {
  command.add("TIME");
  const auto asked_at = since_boot();
  auto replies = redis.call_all(command);
  if (!replies) return replies;
  if (const auto now = redis::parse_time(replies->back())) update_redis_clock(*now, asked_at);
  return replies;
}

}  // namespace

Lease::Lease(const redis::Keys& keys, milliseconds ttl) : key_(keys.recorder_lease()), ttl_(ttl) {
  for (const redis::PartitionKeys& each : keys.partitions()) fences_.push_back(each.fence());
}

Result<redis::Replies> Lease::ask(redis::BlockingRedis& redis, const std::string& identity, std::uint64_t known,
                                  const std::string& instead, std::uint64_t gone) const {
  const std::string pid = std::to_string(getpid());
  Pipeline command;
  command.script(scripts::kLeaseTake).key(key_).arg(this_host() + ", pid " + pid).arg(this_place() + pid);
  command.arg(identity).arg(instead.empty() ? ours_ : instead).arg(known).arg(gone).arg(ttl_.count());
  command.arg(refused_ ? 1 : 0);
  return with_time(redis, std::move(command));
}

Result<void> Lease::take(redis::BlockingRedis& redis, const std::string& identity, std::uint64_t known,
                         const std::string& instead) {
  known = std::max(known, fenced_);
  FRESHET_TRY(replies, ask(redis, identity, known, instead, token_));
  if ((*replies)[0][0].integer() == 0 && is_dead(string_at((*replies)[0], 2))) {
    const auto gone = static_cast<std::uint64_t>((*replies)[0][3].integer().value_or(0));
    auto again = ask(redis, identity, known, instead, gone);
    if (!again) return tl::unexpected(again.error());
    *replies = std::move(*again);
  }
  const redis::Reply& said = replies->front();
  const std::int64_t token = said[0].integer().value_or(0);
  refused_ = token < 0;
  if (token < 0)
    return fail(ErrorCode::kConflict, "other_database", {},
                "Redis belongs to another database, that of " + who_has(string_at(said, 1)));
  if (token == 0)
    return fail(ErrorCode::kConflict, "other_recorder", {}, who_has(string_at(said, 1)) + ", records");
  token_ = static_cast<std::uint64_t>(token);
  ours_ = identity;
  return raise_fences(redis);
}

// A higher one is of who took the lease since; or this Redis has lost later tokens than its fences
// have and the database knows.
Result<void> Lease::raise_fences(redis::BlockingRedis& redis) {
  Pipeline commands;
  for (const std::string& each : fences_) commands.script(scripts::kFence).key(each).arg(token_);
  FRESHET_TRY(replies, redis.call_all(commands));
  for (const redis::Reply& each : *replies)
    fenced_ = std::max(fenced_, static_cast<std::uint64_t>(each.integer().value_or(0)));
  if (fenced_ <= token_) return {};
  return fail(ErrorCode::kUnavailable, "lease_lost", {}, "a stream has the token of a later recorder");
}

void Lease::append_renewal(Pipeline& out, milliseconds ttl) const {
  out.script(scripts::kLeaseRenew).key(key_).arg(token_).arg(ttl.count());
}

Result<void> Lease::renew(redis::BlockingRedis& redis) const {
  Pipeline command;
  append_renewal(command);
  const auto replies = with_time(redis, std::move(command));
  return replies ? Result<void>() : tl::unexpected(replies.error());
}

void Lease::give_back(redis::BlockingRedis& redis) const {
  if (token_ == 0) return;
  Pipeline command;
  append_renewal(command, milliseconds(0));
  (void)redis.call(command);  // else it runs out
}

KeptLease::KeptLease(const Lease& lease, redis::Endpoint endpoint)
    : lease_(lease),
      redis_(std::move(endpoint), lease.ttl() / 3, redis::kAllScripts),
      thread_([this] { keep(); }) {}

KeptLease::~KeptLease() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
  lease_.give_back(redis_);
}

void KeptLease::keep() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, lease_.ttl() / 3, [this] { return over_; })) (void)lease_.renew(redis_);
}

Result<Holder> holder_of(redis::BlockingRedis& redis, const redis::Keys& keys) {
  Pipeline command;
  command.add("HMGET", keys.recorder_lease(), "holder", "database", "till").add("TIME");
  FRESHET_TRY(replies, redis.call_all(command));
  const redis::Reply &had = (*replies)[0], &time = (*replies)[1];
  const auto now = 1000 * redis::parse_or_zero<std::int64_t>(string_at(time, 0)) +
                   redis::parse_or_zero<std::int64_t>(string_at(time, 1)) / 1000;
  return Holder{std::string(string_at(had, 0)), std::string(string_at(had, 1)),
                redis::parse_or_zero<std::int64_t>(string_at(had, 2)) > now};
}

}  // namespace freshet::recorder
