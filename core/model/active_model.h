// The model currently used for recommendations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/model/model.h"
#include "core/model/model_handoff.h"

namespace freshet::model {

// Not thread-safe. A model that was returned stays valid as long as it is referenced.
class ActiveModel {
 public:
  // Null if no valid model was loaded yet.
  std::shared_ptr<const Model> current() const { return model_; }
  // Maps the current entry of the handoff if it is newer. Returns true if the model changed. One
  // recvmsg(2), or a few.
  bool update_from(const ModelHandoff& handoff);
  // Maps a private copy (model_copy.h), for programs without a publisher. Returns false if the file
  // is refused, which is logged, or absent; the current model is kept. O(bytes).
  bool open(const std::filesystem::path& path);

 private:
  std::uint64_t entry_id_ = 0;  // of the last received entry
  std::shared_ptr<const Model> model_;
};

}  // namespace freshet::model
