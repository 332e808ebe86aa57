// A service whose binary can be replaced: copies of fake_freshetd in a temporary folder, each a
// process of its own, with the test as systemd (it receives what they notify, and is the parent of
// whoever is left).
#pragma once

#include <string>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {

struct Notice {
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
  pid_t main() const { return main_; }
  void signal(int number) const;
  // Waits for a message from the main process that contains `part`; what comes before it is
  // dropped, except that MAINPID= moves main(). A message of any other process goes to strays().
  // Empty when none comes in 10 s.
  std::string notified(const std::string& part);
  std::vector<Notice> strays();  // after reading all that is there
  // The whole of an upgrade that succeeds: the pid that is main afterwards.
  pid_t upgrade();

  std::string socket() const { return folder_ / "s"; }
  std::string status_socket() const { return folder_ / "t"; }
  std::string content(const std::string& name) const;
  bool exists(const std::string& name) const;
  pid_t pid_file() const;
  Reply ask() const { return parse_reply(Client(socket()).ask()); }
  Reply ask_status() const { return parse_reply(Client(status_socket()).ask()); }
  std::size_t noted(const std::string& diary, const std::string& what) const;

 private:
  bool receive(Notice& notice, int flags) const;
  void judge(const Notice& notice);
  TempFolder folder_;
  std::chrono::milliseconds ready_timeout_;
  int notify_fd_;
  std::vector<pid_t> masters_;
  pid_t main_ = 0;
  std::vector<Notice> strays_;
};

}  // namespace freshet::testing
