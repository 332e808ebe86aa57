#undef NDEBUG  // a test checks the message of its assertion
#include "tests/process/fake_worker.h"
#include "fcgi/process/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace freshet::testing {
namespace {

class FakeWorker {
 public:
  FakeWorker(WorkerContext& context, const std::string& secret)
      : context_(context), secret_(secret), slot_(context.board.slots()[context.slot_index]) {
    sigset_t mask;
    sigemptyset(&mask);
    for (const int signal : {SIGQUIT, SIGTERM, SIGUSR1}) sigaddset(&mask, signal);
    sigprocmask(SIG_BLOCK, &mask, nullptr);
    signals_ = signalfd(-1, &mask, SFD_NONBLOCK);
  }

  int run() {
    const bool ready = behaviour() != "never" && !(behaviour() == "half" && context_.slot_index % 2 == 1);
    if (ready) write_to_master('R');
    while (!(draining_ && connections_.empty())) {
      record_iteration();
      std::vector<pollfd> fds{{signals_, POLLIN, 0}, {is_accepting() ? context_.listen_fd : -1, POLLIN, 0}};
      for (const int fd : connections_) fds.push_back({fd, POLLIN, 0});
      poll(fds.data(), fds.size(), 50);
      if (fds[0].revents != 0 && read_signal()) return 0;
      if (fds[1].revents != 0 && behaviour() != "never") accept_connection();
      for (std::size_t i = 2; i < fds.size(); ++i)
        if (fds[i].revents != 0) serve(fds[i].fd);
    }
    return 0;
  }

 private:
  static void fail_loudly() {
    std::puts("written to stdout");
    std::fflush(stdout);
    assert("failed on purpose" == nullptr);
  }
  const std::string& behaviour() const { return context_.settings.pool.ping_response; }
  bool is_accepting() const { return !draining_ && slot_.in_flight == 0; }
  void write_to_master(char byte) { static_cast<void>(!write(context_.ready_fd, &byte, 1)); }
  void record_iteration() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    slot_.last_iteration_ms = std::chrono::duration_cast<milliseconds>(now).count();
  }
  // Returns true if it is time to end.
  bool read_signal() {
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof info) != sizeof info || behaviour() == "stubborn") return false;
    if (info.ssi_signo == SIGUSR1) slot_.replayed.fetch_add(1);
    if (info.ssi_signo == SIGQUIT) draining_ = true;
    return info.ssi_signo == SIGTERM;
  }
  void accept_connection() {
    const int fd = accept(context_.listen_fd, nullptr, nullptr);
    if (fd < 0) return;
    connections_.push_back(fd);
    slot_.accepted.fetch_add(1);
  }
  void serve(int fd) {
    char command = 0;
    if (read(fd, &command, 1) != 1) {
      close(fd);
      std::erase(connections_, fd);
      return;
    }
    if (command == 'x') write_to_master('X');
    if (command == 'a') std::abort();
    if (command == 't') fail_loudly();
    if (command == 'b') slot_.in_flight.fetch_add(1);
    if (command == 'e') slot_.in_flight.fetch_sub(1);
    if (command == 'h')
      while (true) pause();
    const std::string reply = std::to_string(getpid()) + " " + std::to_string(slot_.generation.load()) + " " +
                              (command == 's' ? secret_ : behaviour()) + "\n";
    slot_.requests.fetch_add(1);
    static_cast<void>(!send(fd, reply.data(), reply.size(), MSG_NOSIGNAL));
  }

  WorkerContext& context_;
  const std::string& secret_;
  WorkerSlot& slot_;
  int signals_ = -1;
  bool draining_ = false;
  std::vector<int> connections_;
};

}  // namespace

int fake_worker(WorkerContext& context, const std::string& secret) {
  const std::string& behaviour = context.settings.pool.ping_response;
  if (behaviour == "die" || behaviour == "reject") {
    context.board.slots()[context.slot_index].requests.fetch_add(1);
    return behaviour == "die" ? 3 : kExitConfig;
  }
  if (behaviour == "throw") throw std::runtime_error("thrown by the test");
  return FakeWorker(context, secret).run();
}

}  // namespace freshet::testing
