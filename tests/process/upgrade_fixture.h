// A service whose binary can be replaced: copies of fake_freshetd in a temporary folder, each a
// process of its own, with the test as systemd (it receives what they notify, and is the parent of
// whoever is left).
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
  // Puts another file where the binary stands, in one step: a copy of fake_freshetd with this
  // behaviour.
  void install(const std::string& behaviour = "good", int mode = 0755);
  void install_text(const std::string& text);  // an executable file of just this

  // The process that systemd takes for the service.
  pid_t main_pid() const { return main_pid_; }
  void signal(int number) const;
  // Waits for a message from the main process that contains `part`; what comes before it is
  // dropped, except that MAINPID= moves main(). A message of any other process goes to strays().
  // Empty when none comes in 10 s.
  std::string wait_for_notification(const std::string& part);
  std::vector<Notification> unexpected_notifications();  // after reading all that is there
  // The whole of an upgrade that succeeds: the pid that is main afterwards.
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
