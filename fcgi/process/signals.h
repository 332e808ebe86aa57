// The master's signals in one table, and the descriptor on which they arrive.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/base/result.h"

namespace freshet {

enum class MasterCommand { kStopNow, kStopGracefully, kReload, kUpgrade, kReopenLogs, kReap };

struct SignalRow {
  int number;
  std::string_view name;
  MasterCommand command;
};
std::span<const SignalRow> signal_table();

// While it exists, the signals of the table are blocked and arrive on a descriptor instead. One per
// process.
class SignalQueue {
 public:
  static Result<SignalQueue> open();
  SignalQueue(SignalQueue&& other) noexcept;
  SignalQueue& operator=(SignalQueue&&) = delete;
  ~SignalQueue();

  int fd() const { return fd_; }  // readable when next() has a signal
  // Returns the next signal, without blocking.
  std::optional<SignalRow> next();

 private:
  explicit SignalQueue(int fd) : fd_(fd) {}
  int fd_;
};

// Call in a forked child: unblocks what the master blocked. Until the child installs its own
// handlers, QUIT, TERM and INT end it at once with status 0 and without a core file (it has
// accepted no request yet). HUP, USR1, USR2 and PIPE are ignored.
void reset_signals_in_child();

}  // namespace freshet
