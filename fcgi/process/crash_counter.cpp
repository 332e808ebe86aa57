#include "fcgi/process/crash_counter.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>

namespace freshet {
namespace {

constexpr std::array kCrashSignals{SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP};

}  // namespace

bool is_crash(int status) {
  return WIFSIGNALED(status) && std::ranges::count(kCrashSignals, WTERMSIG(status)) != 0;
}

bool CrashCounter::record_crash(int threshold, seconds interval, SteadyTime now) {
  if (threshold <= 0) return false;
  while (!crashes_.empty() && crashes_.front() + interval <= now) crashes_.pop_front();
  crashes_.push_back(now);
  if (crashes_.size() < static_cast<std::size_t>(threshold)) return false;
  crashes_.clear();
  return true;
}

}  // namespace freshet
