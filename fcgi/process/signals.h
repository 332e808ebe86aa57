// The master's signals, in one table, and the descriptor they arrive on.
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

// While one lives, the signals of the table are blocked and arrive on a descriptor instead. One for
// each process.
class SignalQueue {
 public:
  static Result<SignalQueue> open();
  SignalQueue(SignalQueue&& other) noexcept;
  SignalQueue& operator=(SignalQueue&&) = delete;
  ~SignalQueue();

  int fd() const { return fd_; }  // readable when next() has something
  // The next command with its signal's name, without waiting.
  std::optional<SignalRow> next();

 private:
  explicit SignalQueue(int fd) : fd_(fd) {}
  int fd_;
};

// In a freshly forked worker: unblocks what the master blocked. Until the worker has its own
// handlers QUIT, TERM and INT end it at once (it has taken no request yet), without a core file;
// HUP, USR1, USR2 and PIPE are ignored.
void reset_signals_in_child();

}  // namespace freshet
