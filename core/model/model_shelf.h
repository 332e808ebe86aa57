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
struct Left {
  std::uint64_t number = 0;  // never the same twice
  FileState original;        // as it was copied
  std::uint64_t path = 0;    // hash of the original's
  bool model = false;        // false: there is none
};

class ModelShelf {
 public:
  // Throws std::system_error.
  ModelShelf();

  // Puts it in place of what lies there; `file` −1: no model. Sets number and model. One process at
  // a time. Error: kInternal "model_shelf".
  Result<void> leave(Left left, int file);
  // None: nothing was left yet.
  std::optional<Left> look() const;
  // Its file too: one that the caller owns; none when there is no model.
  struct Found {
    Left left;
    Descriptor file;
  };
  std::optional<Found> open() const;
  // Until something was left for the first time, or that long, or a signal came.
  void wait(std::chrono::milliseconds most) const;

 private:
  std::optional<Found> receive(int flags, bool with_file) const;

  Descriptor in_, out_;
};

}  // namespace freshet::model
