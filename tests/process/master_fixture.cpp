#include "tests/process/master_fixture.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/process/fake_master.h"

namespace freshet::testing {

namespace fs = std::filesystem;

namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / "freshet-process-XXXXXX").string();
  path_ = mkdtemp(name.data());
}
TempFolder::~TempFolder() { fs::remove_all(path_); }

int wait_for_exit(pid_t pid) {
  int status = -1;
  return eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }) ? status : -1;
}

bool is_alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end + 2, 1) != "Z";
}

std::string process_name(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(in, name);
  return name;
}

Client::Client(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = address_of(path);
  connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const timeval receive_timeout{10, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &receive_timeout, sizeof receive_timeout);
}
Client::~Client() { close(fd_); }

void Client::send_only(char command) const { static_cast<void>(!send(fd_, &command, 1, MSG_NOSIGNAL)); }

std::string Client::request(char command) const {
  send_only(command);
  std::string line;
  char byte = 0;
  while (read(fd_, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

Reply parse_reply(const std::string& line) {
  Reply reply;
  std::istringstream(line) >> reply.pid >> reply.generation >> reply.text;
  return reply;
}

TestMaster::TestMaster(const std::string& config, std::chrono::microseconds watchdog,
                       std::chrono::milliseconds ready_timeout)
    : notify_fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = address_of(path("notify"));
  bind(notify_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const timeval receive_timeout{10, 0};
  setsockopt(notify_fd_, SOL_SOCKET, SO_RCVTIMEO, &receive_timeout, sizeof receive_timeout);
  write_config(config);
  pid_ = fork();
  if (pid_ == 0) run(watchdog, ready_timeout);
}

TestMaster::~TestMaster() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(notify_fd_);
}

void TestMaster::run(std::chrono::microseconds watchdog, std::chrono::milliseconds ready_timeout) {
  set_up_fake_master(folder_ / "");
  if (watchdog.count() > 0) setenv("WATCHDOG_USEC", std::to_string(watchdog.count()).c_str(), 1);
  _exit(run_fake_master({folder_ / "", ready_timeout, {}, {}}, board_));
}

void TestMaster::write_config(const std::string& config) const {
  std::ofstream out(path("freshet.toml"));
  out << "listen = \"" << socket() << "\"\npid = \"" << path("pid") << "\"\n";
  if (config.find("pm.status_listen") == std::string::npos)
    out << "pm.status_listen = \"" << status_socket() << "\"\n";
  out << config;
}

void TestMaster::signal(int number) const { kill(pid_, number); }

Reply TestMaster::request() const { return parse_reply(Client(socket()).request()); }

std::string TestMaster::wait_for_notification(const std::string& part) const {
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t bytes_read = recv(notify_fd_, buffer.data(), buffer.size(), pid_ < 0 ? MSG_DONTWAIT : 0);
    if (bytes_read <= 0) return "";
    std::string message(buffer.data(), static_cast<std::size_t>(bytes_read));
    if (message.find(part) != std::string::npos) return message;
  }
}

int TestMaster::exit_status() {
  const int status = wait_for_exit(pid_);
  if (status == -1) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string TestMaster::log() const { return read_file("log"); }

std::string TestMaster::read_file(const std::string& name) const {
  std::ifstream in(path(name));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace freshet::testing
