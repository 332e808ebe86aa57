// The model that recommendations are made of; another may take its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/model/model.h"
#include "core/model/model_handoff.h"

namespace freshet::model {

// One thread. Models that were given out live as long as somebody holds them.
class ActiveModel {
 public:
  // Null: there was no good one yet.
  std::shared_ptr<const Model> current() const { return model_; }
  // Maps what was left on the shelf since the last call. True when another model is now current.
  // One recvmsg(2), or a few.
  bool update_from(const ModelHandoff& handoff);
  // Maps a copy of its own (model_copy.h), for a program that has no keeper. False: the file is
  // refused, which is logged, or absent, and changes nothing. O(bytes).
  bool open(const std::filesystem::path& path);

 private:
  std::uint64_t entry_id_ = 0;  // of what was taken last
  std::shared_ptr<const Model> model_;
};

}  // namespace freshet::model
