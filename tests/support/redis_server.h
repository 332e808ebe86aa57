// A private Redis server on a unix socket in a temporary directory. Ended by pid.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/redis/blocking_redis.h"

namespace freshet::test {

// The program that tests and scripts/run start: $FRESHET_REDIS_SERVER, or redis-server.
inline std::string redis_program() {
  const char* const named = std::getenv("FRESHET_REDIS_SERVER");
  return named != nullptr && *named != '\0' ? named : "redis-server";
}

class RedisServer {
 public:
  // `options` are appended to the server's command line, such as {"--appendonly", "yes"}. Returns
  // when the server is ready; throws if it does not start.
  explicit RedisServer(std::vector<std::string> options = {}, std::string program = redis_program())
      : options_(std::move(options)), program_(std::move(program)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "freshet-redis-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
    directory_ = pattern;
    start();
  }
  ~RedisServer() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::string socket() const { return (directory_ / "redis.sock").string(); }
  std::string url() const { return "unix://" + socket(); }
  const std::filesystem::path& directory() const { return directory_; }
  pid_t pid() const { return pid_; }
  redis::Endpoint endpoint() const {
    redis::Endpoint out;
    out.unix_path = socket();
    return out;
  }

  // Restarts the server in the same directory after stop() or kill().
  void start() {
    std::vector<std::string> command{program_,
                                     "--port",
                                     "0",
                                     "--unixsocket",
                                     socket(),
                                     "--dir",
                                     directory_,
                                     "--save",
                                     "",
                                     "--logfile",
                                     (directory_ / "log").string()};
    command.insert(command.end(), options_.begin(), options_.end());
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // the server ends with a test that crashes
      execvp(argv[0], argv.data());
      _exit(127);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    redis::Pipeline ping;
    ping.add("PING");
    while (std::chrono::steady_clock::now() < deadline) {
      redis::BlockingRedis client(endpoint(), milliseconds(1000), {});
      const auto reply = client.call(ping);
      if (reply && !reply->front().is_error()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    throw std::runtime_error(program_ + " did not start in " + directory_.string());
  }
  void stop() { terminate(SIGTERM); }
  void kill() { terminate(SIGKILL); }
  void pause() const { ::kill(pid_, SIGSTOP); }
  void resume() const { ::kill(pid_, SIGCONT); }
  void flush_all() const {
    redis::Pipeline command;
    command.add("FLUSHALL");
    redis::BlockingRedis(endpoint(), milliseconds(5000), {}).call(command);
  }

 private:
  void terminate(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGCONT);
    ::kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::vector<std::string> options_;
  std::string program_;
  std::filesystem::path directory_;
  pid_t pid_ = -1;
};

}  // namespace freshet::test
