#include "core/model/served_model.h"

#include <string>

#include "core/base/log.h"
#include "core/model/model_copy.h"

namespace freshet::model {

bool ServedModel::take(const ModelShelf& shelf) {
  const auto left = shelf.look();
  if (!left || left->number == number_) return false;
  const auto found = shelf.open();
  if (!found || (found->left.model && found->file.get() < 0)) return false;  // no descriptor is free
  number_ = found->left.number;
  if (!found->left.model) return false;
  auto mapped = Model::open_again(found->file.get());
  if (!mapped) {
    log::error("model_not_mapped", {{"detail", mapped.error().detail}});
    return false;
  }
  model_ = std::move(*mapped);
  return true;
}

bool ServedModel::open(const std::filesystem::path& path) {
  auto copy = copy_model(path);
  if (copy) {
    model_ = std::move(copy->model);
    return true;
  }
  if (copy.error().code != ErrorCode::kNotFound)
    log::warning("model_refused", {{"path", path.string()},
                                   {"why", std::string(copy.error().reason)},
                                   {"detail", copy.error().detail},
                                   {"kept", model_ ? "the one before" : "none"}});
  return false;
}

}  // namespace freshet::model
