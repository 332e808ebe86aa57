#include "core/model/model_publisher.h"

#include <xxhash.h>

#include <utility>

#include "core/base/log.h"

namespace freshet::model {

ModelPublisher::ModelPublisher(std::filesystem::path path, ModelHandoff& handoff)
    : path_(std::move(path)),
      path_hash_(XXH3_64bits(path_.native().data(), path_.native().size())),
      handoff_(handoff) {}

void ModelPublisher::poll(Clock::time_point now) {
  if (!std::exchange(polled_, true)) return poll_first(now);
  const FileVersion found = read_file_version(path_);
  const bool is_stable = found == std::exchange(last_seen_, found);
  if (is_stable && (found != processed_ || now >= retry_at_)) copy(now);
}

void ModelPublisher::poll_first(Clock::time_point now) {
  last_seen_ = read_file_version(path_);
  const bool exists = last_seen_ != FileVersion{};
  if (const auto current = handoff_.peek();
      current && current->path_hash == path_hash_ && current->source == last_seen_) {
    processed_ = last_seen_;
    return;
  }
  if (exists) copy(now);
  if (!exists || !has_handed_off()) hand_off({}, -1, now);
}

bool ModelPublisher::has_handed_off() const {
  const auto current = handoff_.peek();
  return current && current->has_model && current->path_hash == path_hash_;
}

void ModelPublisher::hand_off(const FileVersion& original, int file, Clock::time_point now) {
  const auto done = handoff_.put({.source = original, .path_hash = path_hash_}, file);
  if (done) return;
  retry_at_ = now + kRetryInterval;
  log::error("model_publish_failed", {{"detail", done.error().detail}});
}

void ModelPublisher::copy(Clock::time_point now) {
  const bool is_retry = std::exchange(processed_, last_seen_) == last_seen_;
  retry_at_ = Clock::time_point::max();
  const auto copy = copy_model(path_);
  if (!copy) return log_refusal(copy.error(), is_retry, now);
  logged_reason_ = {};
  const Model& model = *copy->model;
  log::notice("model_copied", {{"path", path_.string()},
                               {"algorithm", std::string(model.algorithm())},
                               {"items", std::to_string(model.items())},
                               {"bytes", std::to_string(model.bytes())},
                               {"trained", to_rfc3339(model.trained_at())}});
  if (!copy->in_memory_reason.empty())
    log::warning("model_kept_in_memory",
                 {{"bytes", std::to_string(model.bytes())}, {"error", copy->in_memory_reason}});
  hand_off(last_seen_, copy->file.get(), now);
}

void ModelPublisher::log_refusal(const Error& error, bool is_retry, Clock::time_point now) {
  if (error.code == ErrorCode::kUnavailable) retry_at_ = now + kRetryInterval;
  if (is_retry && error.reason == logged_reason_) return;
  logged_reason_ = error.reason;
  log::warning("model_rejected", {{"path", path_.string()},
                                  {"reason", std::string(error.reason)},
                                  {"detail", error.detail},
                                  {"kept", has_handed_off() ? "previous" : "none"}});
}

}  // namespace freshet::model
