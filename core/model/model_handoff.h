// Hands the newest model from one process to all others: an open file in the queue of a socket,
// which the receivers peek at without removing it. The file stays available after the sender has
// exited and is freed with the last process that holds the socket. Inherited by fork; opens no
// file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/base/descriptor.h"
#include "core/model/model_copy.h"

namespace freshet::model {

// The current entry of a handoff.
struct HandoffEntry {
  std::uint64_t id = 0;         // unique
  FileVersion source;           // version of the copied file
  std::uint64_t path_hash = 0;  // hash of the source file's path
  bool has_model = false;       // false: there is no model
};

class ModelHandoff {
 public:
  // Throws std::system_error.
  ModelHandoff();

  // Replaces the current entry. `file` is the open model, or −1 for no model. Sets id and
  // has_model. Only one process at a time may call this. Errors: kInternal "model_handoff".
  Result<void> put(HandoffEntry entry, int file);
  // Returns nullopt if nothing was put yet.
  std::optional<HandoffEntry> peek() const;
  // Like peek(), with a descriptor owned by the caller; the descriptor is unset if there is no
  // model.
  struct HandoffFile {
    HandoffEntry entry;
    Descriptor file;
  };
  std::optional<HandoffFile> peek_with_file() const;
  // Waits until the first entry was put, the timeout has passed, or a signal arrived.
  void wait_for_first(std::chrono::milliseconds timeout) const;

 private:
  std::optional<HandoffFile> receive(int flags, bool with_file) const;

  Descriptor sender_, receiver_;
};

}  // namespace freshet::model
