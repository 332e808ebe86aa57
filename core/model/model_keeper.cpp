#include "core/model/model_keeper.h"

#include <xxhash.h>

#include <utility>

#include "core/base/log.h"

namespace freshet::model {

ModelKeeper::ModelKeeper(std::filesystem::path path, ModelShelf& shelf)
    : path_(std::move(path)),
      name_(XXH3_64bits(path_.native().data(), path_.native().size())),
      shelf_(shelf) {}

void ModelKeeper::look(Clock::time_point now) {
  if (!std::exchange(looked_, true)) return look_first(now);
  const FileState found = file_state(path_);
  const bool still = found == std::exchange(seen_, found);
  if (still && (found != done_ || now >= again_)) copy(now);
}

void ModelKeeper::look_first(Clock::time_point now) {
  seen_ = file_state(path_);
  const bool exists = seen_ != FileState{};
  if (const auto left = shelf_.look(); left && left->path == name_ && left->original == seen_) {
    done_ = seen_;
    return;
  }
  if (exists) copy(now);
  if (!exists || !keeps_one()) leave({}, -1, now);
}

bool ModelKeeper::keeps_one() const {
  const auto left = shelf_.look();
  return left && left->model && left->path == name_;
}

void ModelKeeper::leave(const FileState& original, int file, Clock::time_point now) {
  const auto done = shelf_.leave({.original = original, .path = name_}, file);
  if (done) return;
  again_ = now + kRetry;
  log::error("model_not_shared", {{"detail", done.error().detail}});
}

void ModelKeeper::copy(Clock::time_point now) {
  const bool again = std::exchange(done_, seen_) == seen_;
  again_ = Clock::time_point::max();
  const auto copy = copy_model(path_);
  if (!copy) return refuse(copy.error(), again, now);
  refused_ = {};
  const Model& model = *copy->model;
  log::notice("model_copied", {{"path", path_.string()},
                               {"algorithm", std::string(model.algorithm())},
                               {"items", std::to_string(model.items())},
                               {"bytes", std::to_string(model.bytes())},
                               {"trained", to_rfc3339(model.trained_at())}});
  if (!copy->in_memory.empty())
    log::warning("model_in_memory", {{"bytes", std::to_string(model.bytes())}, {"why", copy->in_memory}});
  leave(seen_, copy->file.get(), now);
}

void ModelKeeper::refuse(const Error& error, bool again, Clock::time_point now) {
  if (error.code == ErrorCode::kUnavailable) again_ = now + kRetry;
  if (again && error.reason == refused_) return;
  refused_ = error.reason;
  log::warning("model_refused", {{"path", path_.string()},
                                 {"why", std::string(error.reason)},
                                 {"detail", error.detail},
                                 {"kept", keeps_one() ? "the one before" : "none"}});
}

}  // namespace freshet::model
