// A service whose binary can be replaced: copies of fake_freshetd in a temporary folder. The test
// acts as systemd: it receives the notifications, and orphans become its children.
#pragma once

#include <string>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {

struct Notification {
  pid_t sender = 0;
  std::string text;
};

class TestService {
 public:
  // `config` is TOML; the listen addresses are added. Waits for READY.
  explicit TestService(const std::string& config, std::chrono::milliseconds ready_timeout = 20s);
  TestService(const TestService&) = delete;
  TestService& operator=(const TestService&) = delete;
  ~TestService();  // kills all masters

  void write_config(const std::string& config) const;
  // Atomically replaces the binary with a copy of fake_freshetd that has this behavior.
  void install(const std::string& behaviour = "good", int mode = 0755);
  void install_text(const std::string& text);  // installs an executable file with this content

  // The process that systemd considers the service.
  pid_t main_pid() const { return main_pid_; }
  void signal(int number) const;
  // Waits for a message from the main process that contains `part`, and drops those before it;
  // MAINPID= changes main_pid(). Messages from other processes go to unexpected_notifications().
  // Empty if none comes in 10 s.
  std::string wait_for_notification(const std::string& part);
  std::vector<Notification> unexpected_notifications();  // after reading all pending messages
  // Upgrades and waits until it has succeeded. Returns the new main pid.
  pid_t upgrade();

  std::string socket() const { return folder_ / "s"; }
  std::string status_socket() const { return folder_ / "t"; }
  std::string read_file(const std::string& name) const;
  bool exists(const std::string& name) const;
  pid_t recorded_pid() const;
  Reply request() const { return parse_reply(Client(socket()).request()); }
  Reply request_status() const { return parse_reply(Client(status_socket()).request()); }
  std::size_t count_events(const std::string& file, const std::string& event) const;

 private:
  bool receive(Notification& notification, int flags) const;
  void process_notification(const Notification& notification);
  TempFolder folder_;
  std::chrono::milliseconds ready_timeout_;
  int notify_fd_;
  std::vector<pid_t> masters_;
  pid_t main_pid_ = 0;
  std::vector<Notification> unexpected_;
};

}  // namespace freshet::testing
