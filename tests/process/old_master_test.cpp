#include "fcgi/process/old_master.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

extern "C" {
#include <sys/pidfd.h>  // the header of glibc 2.36 lacks extern "C"
}

namespace freshet::testing {
namespace {

bool readable(int fd, int timeout_ms) {
  pollfd watched{fd, POLLIN, 0};
  return poll(&watched, 1, timeout_ms) == 1;
}

// A process that creates a channel and on command closes its end without exiting.
class ChannelOwner {
 public:
  ChannelOwner() {
    std::array<int, 2> commands{}, replies{};
    REQUIRE(pipe(commands.data()) == 0);
    REQUIRE(pipe(replies.data()) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) run(commands[0], replies[1]);
    close(commands[0]);
    close(replies[1]);
    command_pipe_.reset(commands[1]);
    reply_pipe_.reset(replies[0]);
    REQUIRE(read(reply_pipe_.get(), channel_ends_.data(), sizeof channel_ends_) == sizeof channel_ends_);
  }
  ~ChannelOwner() { end(); }

  Descriptor successors_end() const {
    const Descriptor process(pidfd_open(pid_, 0));
    return Descriptor(pidfd_getfd(process.get(), channel_ends_[1], 0));
  }
  void close_channel() const {
    REQUIRE(write(command_pipe_.get(), "c", 1) == 1);
    char byte = 0;
    REQUIRE(read(reply_pipe_.get(), &byte, 1) == 1);
  }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  [[noreturn]] static void run(int commands, int replies) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0) _exit(1);
    if (write(replies, ends.data(), sizeof ends) != sizeof ends) _exit(1);
    char byte = 0;
    if (read(commands, &byte, 1) != 1) _exit(1);
    close(ends[0]);
    close(ends[1]);
    if (write(replies, &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }

  pid_t pid_ = 0;
  Descriptor command_pipe_, reply_pipe_;
  std::array<int, 2> channel_ends_{};
};

TEST_CASE("an old master has ended when its process has, not when it closed the channel", "[process]") {
  ChannelOwner process;
  Handover handover;
  handover.channel = Channel(process.successors_end());
  REQUIRE(handover.channel.fd() >= 0);
  OldMaster old_master(std::move(handover));
  CHECK_FALSE(old_master.has_ended());

  process.close_channel();
  REQUIRE(readable(old_master.fd(), 10000));
  old_master.read_channel();
  CHECK_FALSE(old_master.has_ended());
  CHECK_FALSE(readable(old_master.fd(), 0));

  process.end();
  REQUIRE(readable(old_master.fd(), 10000));
  old_master.read_channel();
  CHECK(old_master.has_ended());
  CHECK(old_master.fd() < 0);
}

TEST_CASE("without a predecessor the old master has ended from the start", "[process]") {
  const OldMaster no_predecessor;
  CHECK(no_predecessor.has_ended());
  CHECK(no_predecessor.fd() < 0);
  CHECK_FALSE(no_predecessor.is_serving());
}

}  // namespace
}  // namespace freshet::testing
