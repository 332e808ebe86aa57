// Watches the model file, and leaves a verified copy of each new one on the shelf. A file that is
// refused leaves what lies there; so does one that is gone, while the keeper lives.
#pragma once

#include <chrono>
#include <filesystem>
#include <string_view>

#include "core/model/model_copy.h"
#include "core/model/model_handoff.h"

namespace freshet::model {

class ModelPublisher {
 public:
  using Clock = std::chrono::steady_clock;
  // What may get better by itself (no room, the file cannot be read) is tried again so often.
  static constexpr std::chrono::seconds kRetryInterval{60};

  // The shelf must outlive this.
  ModelPublisher(std::filesystem::path path, ModelHandoff& handoff);

  // The first look copies at once, and always leaves something: after a crash or a reload of the
  // settings what lies there already, when the file is still the same. Later ones copy a file that
  // has changed and was left alone between two looks. One stat(2) while nothing changed, else
  // O(bytes). Logs what was copied, and once for each file why it was refused.
  void poll(Clock::time_point now);

 private:
  void poll_first(Clock::time_point now);
  void copy(Clock::time_point now);
  void hand_off(const FileVersion& original, int file, Clock::time_point now);
  void log_refusal(const Error& error, bool is_retry, Clock::time_point now);
  bool has_handed_off() const;  // a model of this file lies there

  const std::filesystem::path path_;
  const std::uint64_t path_hash_;  // hash of the path
  ModelHandoff& handoff_;
  bool polled_ = false;
  FileVersion last_seen_;                                      // at the last look
  FileVersion processed_;                                      // copied or refused
  Clock::time_point retry_at_ = Clock::time_point::max();  // when done_ is tried once more
  std::string_view logged_reason_;                            // why, as the log was told last; empty: it was not
};

}  // namespace freshet::model
