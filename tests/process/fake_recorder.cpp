#include "tests/process/fake_recorder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

namespace freshet::testing {
namespace {

class Diary {
 public:
  explicit Diary(const std::string& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  void note(const std::string& what) const {
    const std::string line = what + " " + std::to_string(getpid()) + "\n";
    static_cast<void>(!write(fd_, line.data(), line.size()));
  }
  bool alone() const { return flock(fd_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int fd_;
};

void note_what_is_the_masters(const Diary& diary) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0)
      diary.note("listens");
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find("signalfd") != std::string::npos) diary.note("signalfd");
  }
}

}  // namespace

int fake_recorder(const Settings& settings, const std::string& diary_path) {
  const std::string& behaviour = settings.recorder.database;
  const Diary diary(diary_path);
  if (!diary.alone()) diary.note("second");
  diary.note("start");
  if (behaviour == "die") return 3;
  note_what_is_the_masters(diary);
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGTERM, SIGUSR1}) sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  diary.note("ready");
  for (int signal = 0; sigwait(&mask, &signal) == 0;) {
    if (signal == SIGUSR1) diary.note("reopen");
    if (signal == SIGTERM && behaviour != "stubborn") break;
  }
  if (behaviour == "slow") poll(nullptr, 0, 300);
  diary.note("end");
  return 0;
}

}  // namespace freshet::testing
