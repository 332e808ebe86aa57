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
  const timeval receive_timeout{10, 0};
  setsockopt(notify_fd_, SOL_SOCKET, SO_RCVTIMEO, &receive_timeout, sizeof receive_timeout);
  const int on = 1;
  setsockopt(notify_fd_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  write_config(config);
  install();
  const std::string path = folder_ / "freshetd", folder = folder_ / "",
                    timeout = std::to_string(ready_timeout_.count());
  main_pid_ = fork();
  if (main_pid_ == 0) {
    execl(path.c_str(), path.c_str(), folder.c_str(), timeout.c_str(), nullptr);
    _exit(97);
  }
  masters_.push_back(main_pid_);
  REQUIRE_FALSE(wait_for_notification("READY=1").empty());
}

TestService::~TestService() {
  for (const pid_t pid : masters_) kill(pid, SIGKILL);
  // Their children then end, and all are reparented to this process.
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
  const std::string new_file = folder_ / "new";
  fs::remove(new_file);
  fs::copy_file(FAKE_FRESHETD, new_file);
  std::ofstream(new_file, std::ios::app) << "\n" << behaviour;
  fs::permissions(new_file, static_cast<fs::perms>(mode));
  fs::rename(new_file, folder_ / "freshetd");
}

void TestService::install_text(const std::string& text) {
  const std::string new_file = folder_ / "new";
  std::ofstream(new_file) << text;
  fs::permissions(new_file, fs::perms::owner_all);
  fs::rename(new_file, folder_ / "freshetd");
}

void TestService::signal(int number) const { kill(main_pid_, number); }

bool TestService::receive(Notification& notification, int flags) const {
  std::array<char, 4096> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t bytes_read = 0;
  do bytes_read = recvmsg(notify_fd_, &message, flags);
  while (bytes_read < 0 && errno == EINTR);  // strace: a socket timeout prevents the restart of the call
  if (bytes_read <= 0) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  ucred sender{};
  if (header) std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  notification = {sender.pid, std::string(text.data(), static_cast<std::size_t>(bytes_read))};
  return true;
}

pid_t parent_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  pid_t parent = 0;
  for (std::string word; in >> word;)
    if (word == "PPid:") in >> parent;
  return parent;
}

// Acts like systemd with NotifyAccess=main: only the main process is heard, and only a living child
// can become the main process (systemd treats another one as alien).
void TestService::process_notification(const Notification& notification) {
  if (notification.sender != main_pid_) {
    unexpected_.push_back(notification);
    return;
  }
  if (!notification.text.starts_with("MAINPID=")) return;
  main_pid_ = std::stoi(notification.text.substr(8));
  masters_.push_back(main_pid_);
  CHECK(is_alive(main_pid_));
  CHECK(parent_of(main_pid_) == getpid());
}

std::string TestService::wait_for_notification(const std::string& part) {
  Notification notification;
  while (receive(notification, 0)) {
    const bool from_main = notification.sender == main_pid_;
    process_notification(notification);
    if (from_main && notification.text.find(part) != std::string::npos) return notification.text;
  }
  return "";
}

std::vector<Notification> TestService::unexpected_notifications() {
  Notification notification;
  while (receive(notification, MSG_DONTWAIT)) process_notification(notification);
  return unexpected_;
}

pid_t TestService::upgrade() {
  const pid_t old_pid = main_pid_;
  signal(SIGUSR2);
  CHECK_FALSE(wait_for_notification("RELOADING=1").empty());
  CHECK_FALSE(wait_for_notification("MAINPID=").empty());
  CHECK_FALSE(wait_for_notification("READY=1").empty());
  CHECK(main_pid_ != old_pid);
  return main_pid_;
}

std::string TestService::read_file(const std::string& name) const {
  std::ifstream in(folder_ / name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool TestService::exists(const std::string& name) const { return fs::exists(folder_ / name); }

pid_t TestService::recorded_pid() const {
  pid_t pid = 0;
  std::istringstream(read_file("pid")) >> pid;
  return pid;
}

std::size_t TestService::count_events(const std::string& file, const std::string& event) const {
  std::size_t times = 0;
  std::istringstream in(read_file(file));
  std::string name;
  for (pid_t pid = 0; in >> name >> pid;) times += name == event ? 1U : 0U;
  return times;
}

}  // namespace freshet::testing
