#include "tests/process/upgrade_fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace freshet::testing {

namespace fs = std::filesystem;

TestService::TestService(const std::string& config, std::chrono::milliseconds ready_timeout)
    : ready_timeout_(ready_timeout), notify_fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder_ / "notify").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(bind(notify_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const timeval patience{10, 0};
  setsockopt(notify_fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const int on = 1;
  setsockopt(notify_fd_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  write_config(config);
  install();
  const std::string path = folder_ / "freshetd", folder = folder_ / "",
                    timeout = std::to_string(ready_timeout_.count());
  main_ = fork();
  if (main_ == 0) {
    execl(path.c_str(), path.c_str(), folder.c_str(), timeout.c_str(), nullptr);
    _exit(97);
  }
  masters_.push_back(main_);
  REQUIRE_FALSE(notified("READY=1").empty());
}

TestService::~TestService() {
  for (const pid_t pid : masters_) kill(pid, SIGKILL);
  // Their children follow by themselves; all are this process' to reap by then.
  eventually([] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return waitpid(-1, nullptr, WNOHANG) < 0;
  });
  close(notify_fd_);
}

void TestService::write_config(const std::string& config) const {
  std::ofstream out(folder_ / "freshet.toml");
  if (config.find("listen =") == std::string::npos) out << "listen = \"" << socket() << "\"\n";
  out << "pm.status_listen = \"" << status_socket() << "\"\npid = \"" << (folder_ / "pid") << "\"\n"
      << config;
}

void TestService::install(const std::string& behaviour, int mode) {
  const std::string made = folder_ / "new";
  fs::remove(made);
  fs::copy_file(FAKE_FRESHETD, made);
  std::ofstream(made, std::ios::app) << "\n" << behaviour;
  fs::permissions(made, static_cast<fs::perms>(mode));
  fs::rename(made, folder_ / "freshetd");
}

void TestService::install_text(const std::string& text) {
  const std::string made = folder_ / "new";
  std::ofstream(made) << text;
  fs::permissions(made, fs::perms::owner_all);
  fs::rename(made, folder_ / "freshetd");
}

void TestService::signal(int number) const { kill(main_, number); }

bool TestService::receive(Notice& notice, int flags) const {
  std::array<char, 4096> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do got = recvmsg(notify_fd_, &message, flags);
  while (got < 0 && errno == EINTR);  // as under strace, where a timeout keeps the call from being restarted
  if (got <= 0) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  ucred sender{};
  if (header) std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  notice = {sender.pid, std::string(text.data(), static_cast<std::size_t>(got))};
  return true;
}

pid_t parent_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  pid_t parent = 0;
  for (std::string word; in >> word;)
    if (word == "PPid:") in >> parent;
  return parent;
}

// As systemd with NotifyAccess=main: nobody else is heard, and only a living child of its own can
// become main (another would be alien to it).
void TestService::judge(const Notice& notice) {
  if (notice.sender != main_) {
    strays_.push_back(notice);
    return;
  }
  if (!notice.text.starts_with("MAINPID=")) return;
  main_ = std::stoi(notice.text.substr(8));
  masters_.push_back(main_);
  CHECK(alive(main_));
  CHECK(parent_of(main_) == getpid());
}

std::string TestService::notified(const std::string& part) {
  Notice notice;
  while (receive(notice, 0)) {
    const bool heard = notice.sender == main_;
    judge(notice);
    if (heard && notice.text.find(part) != std::string::npos) return notice.text;
  }
  return "";
}

std::vector<Notice> TestService::strays() {
  Notice notice;
  while (receive(notice, MSG_DONTWAIT)) judge(notice);
  return strays_;
}

pid_t TestService::upgrade() {
  const pid_t before = main_;
  signal(SIGUSR2);
  CHECK_FALSE(notified("RELOADING=1").empty());
  CHECK_FALSE(notified("MAINPID=").empty());
  CHECK_FALSE(notified("READY=1").empty());
  CHECK(main_ != before);
  return main_;
}

std::string TestService::content(const std::string& name) const {
  std::ifstream in(folder_ / name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool TestService::exists(const std::string& name) const { return fs::exists(folder_ / name); }

pid_t TestService::pid_file() const {
  pid_t pid = 0;
  std::istringstream(content("pid")) >> pid;
  return pid;
}

std::size_t TestService::noted(const std::string& diary, const std::string& what) const {
  std::size_t times = 0;
  std::istringstream in(content(diary));
  std::string word;
  for (pid_t pid = 0; in >> word >> pid;) times += word == what ? 1U : 0U;
  return times;
}

}  // namespace freshet::testing
