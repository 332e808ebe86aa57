// The model that is served: maps the file at a path, and its successor when another was put there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/model/model.h"

namespace freshet::model {

// One thread. Models that were given out live as long as somebody holds them.
class ModelFile {
 public:
  explicit ModelFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Looks whether the path names another file than at the last call, and maps it. True when another model is
  // now current. A file that is refused (or gone) changes nothing; why is logged once for each file. One
  // stat(2) while nothing changed, else O(bytes).
  bool refresh();
  // Null: there was no good file yet.
  std::shared_ptr<const Model> current() const { return model_; }

 private:
  struct Seen {  // what tells one file from the next
    std::uint64_t device = 0, inode = 0, bytes = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Seen&) const = default;
  };
  Seen look() const;

  std::filesystem::path path_;
  Seen seen_;
  std::shared_ptr<const Model> model_;
};

}  // namespace freshet::model
