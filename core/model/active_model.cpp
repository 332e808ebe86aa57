#include "core/model/active_model.h"

#include <string>

#include "core/base/log.h"
#include "core/model/model_copy.h"

namespace freshet::model {

bool ActiveModel::update_from(const ModelHandoff& handoff) {
  const auto latest = handoff.peek();
  if (!latest || latest->id == entry_id_) return false;
  const auto found = handoff.peek_with_file();
  // Out of descriptors; retry later.
  if (!found || (found->entry.has_model && found->file.get() < 0)) return false;
  entry_id_ = found->entry.id;
  if (!found->entry.has_model) return false;
  auto mapped = Model::open_trusted(found->file.get());
  if (!mapped) {
    log::error("model_map_failed", {{"detail", mapped.error().detail}});
    return false;
  }
  model_ = std::move(*mapped);
  return true;
}

bool ActiveModel::open(const std::filesystem::path& path) {
  auto copy = copy_model(path);
  if (copy) {
    model_ = std::move(copy->model);
    return true;
  }
  if (copy.error().code != ErrorCode::kNotFound)
    log::warning("model_rejected", {{"path", path.string()},
                                    {"reason", std::string(copy.error().reason)},
                                    {"detail", copy.error().detail},
                                    {"kept", model_ ? "previous" : "none"}});
  return false;
}

}  // namespace freshet::model
