#include "core/tuning/scratch_folder.h"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

namespace freshet::tuning {

ScratchFolder::ScratchFolder(const std::filesystem::path& below) {
  std::string pattern = (below / "freshet-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot create a folder in " + below.string());
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace freshet::tuning
