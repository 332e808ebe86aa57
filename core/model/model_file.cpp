#include "core/model/model_file.h"

#include <sys/stat.h>

#include "core/base/log.h"

namespace freshet::model {

ModelFile::Seen ModelFile::look() const {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

bool ModelFile::refresh() {
  const Seen found = look();
  if (found == seen_) return false;
  seen_ = found;
  auto opened = Model::open(path_);
  if (!opened) {
    log::warning("model_refused", {{"path", path_.string()},
                                   {"why", std::string(opened.error().reason)},
                                   {"detail", opened.error().detail},
                                   {"kept", model_ ? "the one before" : "none"}});
    return false;
  }
  model_ = std::move(*opened);
  log::notice("model_mapped", {{"path", path_.string()},
                               {"algorithm", std::string(model_->algorithm())},
                               {"items", std::to_string(model_->items())},
                               {"bytes", std::to_string(model_->bytes())},
                               {"trained", to_rfc3339(model_->trained_at())}});
  return true;
}

}  // namespace freshet::model
