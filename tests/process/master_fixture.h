// Runs a real master with fake children in its own process and a temporary folder.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "fcgi/process/scoreboard.h"
#include "fcgi/process/worker_context.h"

namespace freshet::testing {

using namespace std::chrono_literals;

// Returns true as soon as `condition` holds, false if it does not within 20 s.
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

// Waits for a child to end and returns its status from waitpid(); -1 if it does not end within 20
// s.
int wait_for_exit(pid_t pid);
bool is_alive(pid_t pid);
std::string process_name(pid_t pid);

// A connection to a listen socket.
class Client {
 public:
  explicit Client(const std::string& path);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();
  bool is_connected() const { return connected_; }
  // Sends the command and returns the line received. Empty if the connection was closed or nothing
  // came.
  std::string request(char command = 'p') const;
  void send_only(char command) const;

 private:
  int fd_;
  bool connected_;
};

struct Reply {
  pid_t pid = 0;
  int generation = 0;
  std::string text;  // ping.response of the answering generation; empty: no answer
};
Reply parse_reply(const std::string& line);

class TestMaster {
 public:
  // `config` is TOML; the listen addresses are added, and root is allowed. A nonzero `watchdog` is
  // passed as WATCHDOG_USEC.
  explicit TestMaster(const std::string& config, std::chrono::microseconds watchdog = 0us,
                      std::chrono::milliseconds ready_timeout = 20s);
  TestMaster(const TestMaster&) = delete;
  TestMaster& operator=(const TestMaster&) = delete;
  ~TestMaster();  // kills the master; its workers then end on their own

  void write_config(const std::string& config) const;
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  Scoreboard& board() { return board_; }
  std::string socket() const { return folder_ / "s"; }
  std::string status_socket() const { return folder_ / "t"; }
  std::string path(const std::string& name) const { return folder_ / name; }
  Reply request() const;  // over a new connection
  bool has_ready_workers(std::uint32_t workers) const {
    return board_.totals().ready == workers && board_.totals().workers == workers;
  }
  // Waits for a message to systemd that contains `part`, and drops those before it. Empty if none
  // comes in 10 s, or at once if the master has ended.
  std::string wait_for_notification(const std::string& part) const;
  int exit_status();  // waits for the end; -1 on timeout or if killed
  std::string log() const;
  std::string read_file(const std::string& name) const;  // empty if the file does not exist

 private:
  [[noreturn]] void run(std::chrono::microseconds watchdog, std::chrono::milliseconds ready_timeout);
  TempFolder folder_;
  Scoreboard board_{64};
  int notify_fd_;
  pid_t pid_ = -1;
};

// Sends requests in a loop, in its own thread, until stopped or destroyed.
class LoadGenerator {
 public:
  // `request` returns true if the request was answered.
  template <class Request>
  explicit LoadGenerator(Request request)
      : thread_([this, request = std::move(request)] {
          while (!stop_) (request() ? served_ : failed_)++;
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
  // Waits for more than this many further answers, or for a failure.
  bool keeps_being_served(int answers) const {
    const int served_before = served_;
    return eventually([&] { return served_ > served_before + answers || failed_ > 0; });
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int> served_ = 0, failed_ = 0;
  std::thread thread_;  // last member, because it uses the others
};

}  // namespace freshet::testing
