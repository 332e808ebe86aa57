#include "fcgi/process/companion.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/log.h"
#include "core/base/time.h"
#include "fcgi/process/child.h"

namespace freshet {
namespace {

using namespace std::chrono_literals;

}  // namespace

Companion::Companion(CompanionSlot& slot, CompanionRole role)
    : slot_(slot), role_(std::move(role)), master_(getpid()) {}

void Companion::want(const Settings* settings, SteadyTime now) {
  wanted_ = role_.main ? settings : nullptr;
  slot_.wanted.store(wanted_ != nullptr, kRelaxed);
  deaths_ = 0;
  not_before_ = now;
  if (pid_ == 0 || asked_) return;
  asked_ = true;
  patience_ends_ = now + control_timeout_;
  kill(pid_, SIGTERM);
}

void Companion::tick(SteadyTime now) {
  if (pid_ != 0 && now >= patience_ends_) {
    log::warning("companion_killed", {{"process", role_.name}, {"pid", std::to_string(pid_)}});
    kill(pid_, SIGKILL);
    patience_ends_ = SteadyTime::max();
  }
  if (due() && now >= not_before_) start(now);
}

void Companion::start(SteadyTime now) {
  ChildSetup setup{.master = master_, .inherited = role_.inherited(), .name = role_.name};
  progress_at_start_ = role_.progress ? role_.progress() : 0;
  started_ = now;
  const pid_t pid = fork();
  if (pid == 0) run_child(*wanted_, setup, [this] { return role_.main(*wanted_); });
  if (pid < 0) {
    log::error("fork_failed", {{"process", role_.name}, {"detail", std::strerror(errno)}});
    not_before_ = now + 1s;
    return;
  }
  pid_ = pid;
  asked_ = false;
  control_timeout_ = wanted_->pool.process_control_timeout;
  slot_.started_at.store(wall_now().time_since_epoch().count(), kRelaxed);
  slot_.pid.store(pid, kRelaxed);
  log::notice("companion_started", {{"process", role_.name}, {"pid", std::to_string(pid)}});
}

bool Companion::got_on(SteadyTime now) const {
  return role_.progress ? role_.progress() > progress_at_start_ : now >= started_ + kSettled;
}

bool Companion::reap(pid_t pid, int status, SteadyTime now) {
  if (pid_ == 0 || pid != pid_) return false;
  log::write(asked_ ? log::Level::kNotice : log::Level::kWarning, "companion_ended",
             {{"process", role_.name}, {"pid", std::to_string(pid)}, {"status", end_text(status)}});
  if (!asked_) {
    slot_.respawns.fetch_add(1, kRelaxed);
    deaths_ = got_on(now) ? 0 : deaths_ + 1;
    not_before_ = deaths_ == 0 ? now : now + respawn_delay(deaths_);
  }
  pid_ = 0;
  patience_ends_ = SteadyTime::max();
  slot_.pid.store(0, kRelaxed);
  return true;
}

void Companion::reopen_log() const {
  if (pid_ != 0) kill(pid_, SIGUSR1);
}

SteadyTime Companion::next_deadline() const { return due() ? not_before_ : patience_ends_; }

}  // namespace freshet
