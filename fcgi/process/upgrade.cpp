#include "fcgi/process/upgrade.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/log.h"
#include "fcgi/process/child.h"
#include "fcgi/process/signals.h"

namespace freshet {
namespace {

constexpr int kCannotExecute = 126;  // as shells have it
constexpr std::size_t kShownOutput = 400;

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

std::vector<char*> pointers(const std::vector<std::string>& arguments) {
  std::vector<char*> list;
  list.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  return list;
}

// Between the two masters: ends as the new one ends, so that the old one learns how that was.
[[noreturn]] void stand_between(pid_t successor) {
  close_range(0, ~0U, 0);
  prctl(PR_SET_NAME, "freshetd-between");
  int status = 0;
  if (successor < 0 || waitpid(successor, &status, 0) != successor) _exit(kExitSoftware);
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  prctl(PR_SET_DUMPABLE, 0);  // the core is the other's
  reset_signals_in_child();
  raise(WTERMSIG(status));
  _exit(kExitSoftware);
}

}  // namespace

Program this_program(int argc, const char* const argv[]) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): so the kernel gives it.
  const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return {name ? std::filesystem::absolute(name).string() : "", {argv, argv + argc}, {}};
}

Upgrade::Upgrade(Program program, std::string state)
    : program_(std::move(program)), state_(std::move(state)) {}

Upgrade::~Upgrade() {
  // The new master ends after us, and systemd kills who is left then: it shall see no end before
  // the process's own.
  if (went()) {
    channel_.keep();
    return;
  }
  if (lives()) kill(addressee(), SIGKILL);
  if (child_ != 0) kill(child_, SIGKILL);
}

bool Upgrade::offered() const {
  struct stat running {
  }, standing{};
  return !program_.path.empty() && getpid() != 1 && stat("/proc/self/exe", &running) == 0 &&
         stat(program_.path.c_str(), &standing) == 0 && !same_file(running, standing);
}

pid_t Upgrade::launch(const std::vector<std::string>& arguments,
                      const std::function<void()>& in_child) const {
  const std::vector<char*> list = pointers(arguments);
  const pid_t parent = getpid(), pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExitSoftware);
  in_child();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(program_.path.c_str(), list.data());
  dprintf(STDERR_FILENO, "cannot execute %s: %s\n", program_.path.c_str(), std::strerror(errno));
  _exit(kCannotExecute);
}

void Upgrade::begin(const InheritedFds& inherited, SteadyTime deadline, milliseconds patience) {
  inherited_ = inherited;
  deadline_ = deadline;
  patience_ = patience;
  patience_ends_ = SteadyTime::max();
  failure_.clear();
  successor_ = 0;
  released_ = false;
  output_.reset(memfd_create("freshetd-check", MFD_CLOEXEC));
  child_ = launch(program_.test, [this] {
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) dup2(output_.get(), fd);
    unsetenv("NOTIFY_SOCKET");
  });
  stage_ = Stage::kChecking;
  if (child_ > 0) return;
  child_ = 0;
  fail(std::string("fork: ") + std::strerror(errno), SteadyTime());
}

void Upgrade::start(SteadyTime now) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail(std::string("socketpair: ") + std::strerror(errno), now);
  channel_ = Channel(Descriptor(ends[0]));
  const Descriptor theirs(ends[1]);
  channel_.say('K', state_);
  child_ = launch_apart(theirs.get());
  stage_ = Stage::kStarting;
  if (successor_ > 0) {
    log::notice("upgrade_started", {{"path", program_.path}, {"pid", std::to_string(successor_)}});
    return;
  }
  successor_ = 0;
  if (child_ < 0) child_ = 0;
  fail(std::string("fork: ") + std::strerror(errno), now);
}

pid_t Upgrade::launch_apart(int channel) {
  std::array<int, 2> told{};
  if (pipe2(told.data(), O_CLOEXEC) != 0) return -1;
  const Descriptor from(told[0]);
  Descriptor to(told[1]);
  const pid_t master = getpid(), between = fork();
  if (between == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != master) _exit(kExitSoftware);
    const pid_t successor = launch(program_.arguments, [&] {
      hand_over_in_child(inherited_, channel);
      if (std::getenv("WATCHDOG_PID")) setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
    });
    static_cast<void>(!write(to.get(), &successor, sizeof successor));
    stand_between(successor);
  }
  to.reset();  // so that the death of the child is seen
  if (between > 0 && read(from.get(), &successor_, sizeof successor_) != sizeof successor_) successor_ = -1;
  return between;
}

std::string Upgrade::output() const {
  std::string text(kShownOutput, '\0');
  const ssize_t got = pread(output_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (text.ends_with('\n')) text.pop_back();
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

bool Upgrade::reap(pid_t pid, int status, SteadyTime now) {
  if (child_ == 0 || pid != child_) return false;
  child_ = 0;
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (released_ && killed && !channel_.over()) {  // the new master lives on
    if (stage_ == Stage::kReleasing) stage_ = Stage::kReady;
    return true;
  }
  patience_ends_ = SteadyTime::max();
  successor_ = 0;
  const Stage stage = std::exchange(stage_, Stage::kNone);
  channel_ = Channel(Descriptor());
  if (stage == Stage::kChecking && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    start(now);
  else if (stage == Stage::kChecking)
    fail("the new binary refused (" + end_text(status) + "): " + output(), now);
  else if (stage != Stage::kNone)
    fail("the new binary ended before its workers were ready (" + end_text(status) + ")", now);
  return true;
}

void Upgrade::fail(std::string why, SteadyTime now) {
  failure_ = std::move(why);
  cancel(SIGTERM, now);
}

void Upgrade::cancel(int signal, SteadyTime now) {
  if (went()) return;
  stage_ = Stage::kNone;
  deadline_ = SteadyTime::max();
  if (!lives()) return;
  kill(addressee(), signal);
  patience_ends_ = std::min(patience_ends_, now + patience_);
}

void Upgrade::tick(SteadyTime now) {
  if ((stage_ == Stage::kChecking || stage_ == Stage::kStarting) && now >= deadline_)
    fail("the new binary was not ready in time", now);
  if (lives() && now >= patience_ends_) {
    kill(addressee(), SIGKILL);
    patience_ends_ = SteadyTime::max();
  }
}

int Upgrade::hear() {
  constexpr std::array kForwarded{std::pair{'T', SIGTERM}, std::pair{'Q', SIGQUIT}, std::pair{'U', SIGUSR1}};
  const auto message = channel_.hear();
  if (!message) {
    if (channel_.over() && child_ == 0 && !went()) lose_orphan();
    return 0;
  }
  if (stage_ == Stage::kStarting && message->front() == 'R') {
    stage_ = Stage::kReleasing;
    released_ = true;
    kill(child_, SIGKILL);
  }
  if (went())
    for (const auto& [word, signal] : kForwarded)
      if (message->front() == word) return signal;
  return 0;
}

void Upgrade::lose_orphan() {
  successor_ = 0;
  patience_ends_ = SteadyTime::max();
  if (stage_ == Stage::kReady) fail("the new binary ended before it took over", SteadyTime());
}

void Upgrade::go() {
  channel_.say('G');
  stage_ = Stage::kGone;
}

SteadyTime Upgrade::next_deadline() const {
  const bool waits = stage_ == Stage::kChecking || stage_ == Stage::kStarting;
  return std::min(patience_ends_, waits ? deadline_ : SteadyTime::max());
}

}  // namespace freshet
