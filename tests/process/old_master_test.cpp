#include "fcgi/process/old_master.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

extern "C" {
#include <sys/pidfd.h>  // of glibc 2.36: it does not say so itself
}

namespace freshet::testing {
namespace {

bool readable(int fd, int timeout_ms) {
  pollfd watched{fd, POLLIN, 0};
  return poll(&watched, 1, timeout_ms) == 1;
}

// A process that made a channel and, told to, closes its end of it and lives on.
class Process {
 public:
  Process() {
    std::array<int, 2> told{}, tells{};
    REQUIRE(pipe(told.data()) == 0);
    REQUIRE(pipe(tells.data()) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) live(told[0], tells[1]);
    close(told[0]);
    close(tells[1]);
    told_.reset(told[1]);
    tells_.reset(tells[0]);
    REQUIRE(read(tells_.get(), ends_.data(), sizeof ends_) == sizeof ends_);
  }
  ~Process() { end(); }

  Descriptor successors_end() const {
    const Descriptor process(pidfd_open(pid_, 0));
    return Descriptor(pidfd_getfd(process.get(), ends_[1], 0));
  }
  void close_channel() const {
    REQUIRE(write(told_.get(), "c", 1) == 1);
    char byte = 0;
    REQUIRE(read(tells_.get(), &byte, 1) == 1);
  }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  [[noreturn]] static void live(int told, int tells) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0) _exit(1);
    if (write(tells, ends.data(), sizeof ends) != sizeof ends) _exit(1);
    char byte = 0;
    if (read(told, &byte, 1) != 1) _exit(1);
    close(ends[0]);
    close(ends[1]);
    if (write(tells, &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }

  pid_t pid_ = 0;
  Descriptor told_, tells_;
  std::array<int, 2> ends_{};
};

TEST_CASE("an old master is over when its process has ended, not when it let go of the channel",
          "[process]") {
  Process process;
  Handover handover;
  handover.channel = Channel(process.successors_end());
  REQUIRE(handover.channel.fd() >= 0);
  OldMaster old_master(std::move(handover));
  CHECK_FALSE(old_master.over());

  process.close_channel();
  REQUIRE(readable(old_master.fd(), 10000));
  old_master.hear();
  CHECK_FALSE(old_master.over());
  CHECK_FALSE(readable(old_master.fd(), 0));

  process.end();
  REQUIRE(readable(old_master.fd(), 10000));
  old_master.hear();
  CHECK(old_master.over());
  CHECK(old_master.fd() < 0);
}

TEST_CASE("a master that nobody went before has an old one that is over", "[process]") {
  const OldMaster nobody;
  CHECK(nobody.over());
  CHECK(nobody.fd() < 0);
  CHECK_FALSE(nobody.serves());
}

}  // namespace
}  // namespace freshet::testing
