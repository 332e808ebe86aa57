// A real master with fake workers, a fake recorder and a fake status companion in a process of its
// own, in a temporary folder.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "fcgi/process/scoreboard.h"
#include "fcgi/process/worker_context.h"

namespace freshet::testing {

using namespace std::chrono_literals;

// True as soon as `condition` holds; false when it does not within 20 s.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

class TempFolder {
 public:
  TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder();
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Waits for the end of a child; -1 when it does not end within 20 s. As of waitpid.
int wait_for_exit(pid_t pid);
bool is_alive(pid_t pid);
std::string process_name(pid_t pid);

// One connection to the listen socket.
class Client {
 public:
  explicit Client(const std::string& path);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();
  bool is_connected() const { return connected_; }
  // Sends the command and returns the line that comes back, empty when the connection ended or
  // nothing came.
  std::string request(char command = 'p') const;
  void send_only(char command) const;

 private:
  int fd_;
  bool connected_;
};

struct Reply {
  pid_t pid = 0;
  int generation = 0;
  std::string text;  // ping.response of the generation that answered; empty: no answer
};
Reply parse_reply(const std::string& line);

class TestMaster {
 public:
  // `config` is TOML; the listen addresses are added, -R is given. The watchdog interval is told to
  // the master when not 0.
  explicit TestMaster(const std::string& config, std::chrono::microseconds watchdog = 0us,
                      std::chrono::milliseconds ready_timeout = 20s);
  TestMaster(const TestMaster&) = delete;
  TestMaster& operator=(const TestMaster&) = delete;
  ~TestMaster();  // kills the master; its workers follow by themselves

  void write_config(const std::string& config) const;
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  Scoreboard& board() { return board_; }
  std::string socket() const { return folder_ / "s"; }
  std::string status_socket() const { return folder_ / "t"; }
  std::string path(const std::string& name) const { return folder_ / name; }
  Reply request() const;  // over a connection of its own
  bool has_ready_workers(std::uint32_t workers) const {
    return board_.totals().ready == workers && board_.totals().workers == workers;
  }
  // Waits for a message to systemd that contains `part`; what comes before it is dropped. Empty
  // when none comes in 10 s, or at once when the master has ended.
  std::string wait_for_notification(const std::string& part) const;
  int exit_status();  // waits for the end; -1 when it does not come or was no exit
  std::string log() const;
  std::string read_file(const std::string& name) const;  // of a file in the folder; empty when there is none

 private:
  [[noreturn]] void run(std::chrono::microseconds watchdog, std::chrono::milliseconds ready_timeout);
  TempFolder folder_;
  Scoreboard board_{64};
  int notify_fd_;
  pid_t pid_ = -1;
};

// Asks without a pause, from a thread of its own, until it is stopped or destroyed.
class LoadGenerator {
 public:
  // `ask` is true when it was answered.
  template <class Ask>
  explicit Load(Ask ask)
      : thread_([this, ask = std::move(ask)] {
          while (!stop_) (ask() ? served_ : failed_)++;
        }) {}
  LoadGenerator(const LoadGenerator&) = delete;
  LoadGenerator& operator=(const LoadGenerator&) = delete;
  ~LoadGenerator() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int served() const { return served_; }
  int failed() const { return failed_; }
  // Waits until it has more than so many further answers, or lost one.
  bool keeps_being_served(int answers) const {
    const int served_before = served_;
    return eventually([&] { return served_ > served_before + answers || failed_ > 0; });
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int> served_ = 0, failed_ = 0;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace freshet::testing
