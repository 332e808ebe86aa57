// Where one process leaves the newest model for all others: an open file in the queue of a socket,
// at which they look without taking it. It stays there when whoever left it has ended, and goes
// with the last process that has the shelf. Inherited by fork; opens no file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/base/descriptor.h"
#include "core/model/model_copy.h"

namespace freshet::model {

// What lies there.
struct HandoffEntry {
  std::uint64_t id = 0;  // never the same twice
  FileVersion source;        // as it was copied
  std::uint64_t path_hash = 0;    // hash of the original's
  bool has_model = false;        // false: there is none
};

class ModelHandoff {
 public:
  // Throws std::system_error.
  ModelHandoff();

  // Puts it in place of what lies there; `file` −1: no model. Sets number and model. One process at
  // a time. Error: kInternal "model_shelf".
  Result<void> put(HandoffEntry entry, int file);
  // None: nothing was left yet.
  std::optional<HandoffEntry> peek() const;
  // Its file too: one that the caller owns; none when there is no model.
  struct HandoffFile {
    HandoffEntry entry;
    Descriptor file;
  };
  std::optional<HandoffFile> peek_with_file() const;
  // Until something was left for the first time, or that long, or a signal came.
  void wait_for_first(std::chrono::milliseconds timeout) const;

 private:
  std::optional<HandoffFile> receive(int flags, bool with_file) const;

  Descriptor sender_, receiver_;
};

}  // namespace freshet::model
