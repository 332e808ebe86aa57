// Watches the model file and hands a verified copy of each new one to the workers. An invalid file
// leaves the current model in place, and so does a deleted one while the publisher runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/model/model_copy.h"
#include "core/model/model_handoff.h"

namespace freshet::model {

class ModelPublisher {
 public:
  using Clock = std::chrono::steady_clock;
  // Retry interval for errors that may go away (no space, file not readable).
  static constexpr std::chrono::seconds kRetryInterval{60};

  // The handoff must outlive this.
  ModelPublisher(std::filesystem::path path, ModelHandoff& handoff);

  // Checks the file once; call it periodically. The first call copies immediately and always puts
  // an entry, unless the current entry is of the same file (after a crash or a reload). Later calls
  // copy a file that has changed but was stable between two calls. Costs one stat(2) if nothing
  // changed, otherwise O(bytes). Logs each copied file, and once per file why it was refused.
  void poll(Clock::time_point now);

 private:
  void poll_first(Clock::time_point now);
  void copy(Clock::time_point now);
  void hand_off(const FileVersion& original, int file, Clock::time_point now);
  void log_refusal(const Error& error, bool is_retry, Clock::time_point now);
  bool has_handed_off() const;  // returns whether the current entry has a model of this file

  const std::filesystem::path path_;
  const std::uint64_t path_hash_;  // hash of path_
  ModelHandoff& handoff_;
  bool polled_ = false;
  FileVersion last_seen_;                                  // at the last poll
  FileVersion processed_;                                  // copied or refused
  Clock::time_point retry_at_ = Clock::time_point::max();  // when to retry processed_
  std::string_view logged_reason_;                         // last logged reason for a refusal; empty: none
};

}  // namespace freshet::model
