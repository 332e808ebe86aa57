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

constexpr int kCannotExecute = 126;  // as in shells
constexpr std::size_t kMaxShownOutput = 400;

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

std::vector<char*> to_argv(const std::vector<std::string>& arguments) {
  std::vector<char*> list;
  list.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  return list;
}

// Parent of the new master. Exits with the new master's status, so that the old one sees it.
[[noreturn]] void relay_exit_status(pid_t successor) {
  close_range(0, ~0U, 0);
  prctl(PR_SET_NAME, "freshetd-relay");
  int status = 0;
  if (successor < 0 || waitpid(successor, &status, 0) != successor) _exit(kExitSoftware);
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  prctl(PR_SET_DUMPABLE, 0);  // the core file belongs to the other process
  reset_signals_in_child();
  raise(WTERMSIG(status));
  _exit(kExitSoftware);
}

}  // namespace

Program current_program(int argc, const char* const argv[]) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel passes the pointer as an integer.
  const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return {name ? std::filesystem::absolute(name).string() : "", {argv, argv + argc}, {}};
}

Upgrade::Upgrade(Program program, std::string state)
    : program_(std::move(program)), handover_state_(std::move(state)) {}

Upgrade::~Upgrade() {
  // The new master ends after this one, and systemd kills what is left then. It must not see the
  // channel close before this process has ended.
  if (is_committed()) {
    channel_.leave_open();
    return;
  }
  if (is_running()) kill(signal_target(), SIGKILL);
  if (child_pid_ != 0) kill(child_pid_, SIGKILL);
}

bool Upgrade::binary_changed() const {
  struct stat running {
  }, installed{};
  return !program_.path.empty() && getpid() != 1 && stat("/proc/self/exe", &running) == 0 &&
         stat(program_.path.c_str(), &installed) == 0 && !is_same_file(running, installed);
}

pid_t Upgrade::launch(const std::vector<std::string>& arguments,
                      const std::function<void()>& in_child) const {
  const std::vector<char*> list = to_argv(arguments);
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

void Upgrade::begin(const HandoverFds& fds, SteadyTime deadline, milliseconds kill_timeout) {
  handover_fds_ = fds;
  ready_deadline_ = deadline;
  kill_timeout_ = kill_timeout;
  kill_at_ = SteadyTime::max();
  failure_.clear();
  successor_pid_ = 0;
  detached_ = false;
  check_output_.reset(memfd_create("freshetd-check", MFD_CLOEXEC));
  child_pid_ = launch(program_.test_arguments, [this] {
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) dup2(check_output_.get(), fd);
    unsetenv("NOTIFY_SOCKET");
  });
  phase_ = Phase::kChecking;
  if (child_pid_ > 0) return;
  child_pid_ = 0;
  fail(std::string("fork: ") + std::strerror(errno), SteadyTime());
}

void Upgrade::start_successor(SteadyTime now) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return fail(std::string("socketpair: ") + std::strerror(errno), now);
  channel_ = Channel(Descriptor(ends[0]));
  const Descriptor successor_end(ends[1]);
  channel_.send_message('K', handover_state_);
  child_pid_ = launch_detached(successor_end.get());
  phase_ = Phase::kStarting;
  if (successor_pid_ > 0) {
    log::notice("upgrade_started", {{"path", program_.path}, {"pid", std::to_string(successor_pid_)}});
    return;
  }
  successor_pid_ = 0;
  if (child_pid_ < 0) child_pid_ = 0;
  fail(std::string("fork: ") + std::strerror(errno), now);
}

pid_t Upgrade::launch_detached(int channel) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return -1;
  const Descriptor reader(pipe_ends[0]);
  Descriptor writer(pipe_ends[1]);
  const pid_t master = getpid(), relay = fork();
  if (relay == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != master) _exit(kExitSoftware);
    const pid_t successor = launch(program_.arguments, [&] {
      install_handover_fds(handover_fds_, channel);
      if (std::getenv("WATCHDOG_PID")) setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
    });
    static_cast<void>(!write(writer.get(), &successor, sizeof successor));
    relay_exit_status(successor);
  }
  writer.reset();  // so that read() sees the child's death
  if (relay > 0 && read(reader.get(), &successor_pid_, sizeof successor_pid_) != sizeof successor_pid_)
    successor_pid_ = -1;
  return relay;
}

std::string Upgrade::check_output() const {
  std::string text(kMaxShownOutput, '\0');
  const ssize_t bytes_read = pread(check_output_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes_read, 0)));
  while (text.ends_with('\n')) text.pop_back();
  for (std::size_t newline = 0; (newline = text.find('\n', newline)) != std::string::npos;)
    text.replace(newline, 1, "; ");
  return text;
}

bool Upgrade::reap(pid_t pid, int status, SteadyTime now) {
  if (child_pid_ == 0 || pid != child_pid_) return false;
  child_pid_ = 0;
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (detached_ && killed && !channel_.is_closed()) {  // the new master continues
    if (phase_ == Phase::kDetaching) phase_ = Phase::kReady;
    return true;
  }
  kill_at_ = SteadyTime::max();
  successor_pid_ = 0;
  const Phase phase = std::exchange(phase_, Phase::kNone);
  channel_ = Channel(Descriptor());
  if (phase == Phase::kChecking && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    start_successor(now);
  else if (phase == Phase::kChecking)
    fail("the new binary failed its configuration check (" + exit_text(status) + "): " + check_output(), now);
  else if (phase != Phase::kNone)
    fail("the new binary ended before its workers were ready (" + exit_text(status) + ")", now);
  return true;
}

void Upgrade::fail(std::string reason, SteadyTime now) {
  failure_ = std::move(reason);
  cancel(SIGTERM, now);
}

void Upgrade::cancel(int signal, SteadyTime now) {
  if (is_committed()) return;
  phase_ = Phase::kNone;
  ready_deadline_ = SteadyTime::max();
  if (!is_running()) return;
  kill(signal_target(), signal);
  kill_at_ = std::min(kill_at_, now + kill_timeout_);
}

void Upgrade::tick(SteadyTime now) {
  if ((phase_ == Phase::kChecking || phase_ == Phase::kStarting) && now >= ready_deadline_)
    fail("the new binary was not ready in time", now);
  if (is_running() && now >= kill_at_) {
    kill(signal_target(), SIGKILL);
    kill_at_ = SteadyTime::max();
  }
}

int Upgrade::read_channel() {
  constexpr std::array kForwarded{std::pair{'T', SIGTERM}, std::pair{'Q', SIGQUIT}, std::pair{'U', SIGUSR1}};
  const auto message = channel_.receive_message();
  if (!message) {
    if (channel_.is_closed() && child_pid_ == 0 && !is_committed()) on_successor_lost();
    return 0;
  }
  if (phase_ == Phase::kStarting && message->front() == 'R') {
    phase_ = Phase::kDetaching;
    detached_ = true;
    kill(child_pid_, SIGKILL);
  }
  if (is_committed())
    for (const auto& [type, signal] : kForwarded)
      if (message->front() == type) return signal;
  return 0;
}

void Upgrade::on_successor_lost() {
  successor_pid_ = 0;
  kill_at_ = SteadyTime::max();
  if (phase_ == Phase::kReady) fail("the new binary ended before it took over", SteadyTime());
}

void Upgrade::commit() {
  channel_.send_message('G');
  phase_ = Phase::kCommitted;
}

SteadyTime Upgrade::next_deadline() const {
  const bool waits = phase_ == Phase::kChecking || phase_ == Phase::kStarting;
  return std::min(kill_at_, waits ? ready_deadline_ : SteadyTime::max());
}

}  // namespace freshet
