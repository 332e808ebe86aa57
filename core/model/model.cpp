#include "core/model/model.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/model/model_view.h"

namespace freshet::model {
namespace {

// Read-only pages of a file; they stay when another file takes its name.
class Mapping {
 public:
  Mapping(void* at, std::size_t bytes) : at_(at), bytes_(bytes) {}
  ~Mapping() { munmap(at_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(at_), bytes_}; }

 private:
  void* at_;
  std::size_t bytes_;
};

tl::unexpected<Error> cannot_map() {
  return fail(ErrorCode::kUnavailable, "model_io", {},
              std::string("the model cannot be mapped: ") + std::strerror(errno));
}

Result<std::unique_ptr<const Mapping>> map(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return cannot_map();
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return cannot_map();
  return std::make_unique<const Mapping>(at, bytes);
}

template <class Column, class Each>
void walk(const RowsView& rows, std::span<const Column> columns, std::uint32_t item, const Each& each) {
  const std::uint64_t end = rows.starts[item + 1];
  const Column* const column = columns.data();
  const std::int16_t* const stored = rows.weights.data();
  for (std::uint64_t at = rows.starts[item]; at < end; ++at) each(std::uint32_t{column[at]}, stored[at]);
}

// Calls each(column, stored weight) for the row; the weight is scales[item] · stored.
template <class Each>
void walk(const RowsView& rows, std::uint32_t item, const Each& each) {
  if (!rows.narrow.empty()) {
    walk(rows, rows.narrow, item, each);
  } else {
    walk(rows, rows.wide, item, each);
  }
}

class MappedModel final : public Model {
 public:
  MappedModel(std::unique_ptr<const Mapping> mapping, const ModelView& view)
      : mapping_(std::move(mapping)), view_(view) {}

  std::uint32_t items() const override { return view_.header->items; }
  std::optional<std::uint32_t> find(std::string_view wanted) const override {
    const auto found = std::partition_point(view_.items.begin(), view_.items.end(),
                                            [&](const layout::Item& item) { return text(item.id) < wanted; });
    if (found == view_.items.end() || text(found->id) != wanted) return std::nullopt;
    return static_cast<std::uint32_t>(found - view_.items.begin());
  }
  std::string_view id(std::uint32_t item) const override { return text(view_.items[item].id); }
  std::string_view title(std::uint32_t item) const override { return text(view_.items[item].title); }
  std::string_view author(std::uint32_t item) const override { return text(view_.items[item].author); }
  std::vector<std::string_view> tags(std::uint32_t item) const override {
    const layout::Item& entry = view_.items[item];
    std::vector<std::string_view> names;
    for (const layout::Text& tag : view_.tags.subspan(entry.first_tag, entry.tags)) {
      names.push_back(text(tag));
    }
    return names;
  }
  UnixSeconds published(std::uint32_t item) const override {
    return UnixSeconds(seconds(view_.items[item].published));
  }
  float count(std::uint32_t item) const override { return view_.items[item].count; }
  float decayed_count(std::uint32_t item) const override { return view_.items[item].decayed_count; }
  std::span<const TermWeight> terms(std::uint32_t item) const override {
    const std::uint64_t start = view_.term_starts[item];
    return view_.terms.subspan(start, view_.term_starts[item + 1] - start);
  }

  void accumulate(Part part, std::uint32_t item, float scale, std::span<float> scores) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(part)];
    const float step = scale * rows.scales[item];
    float* const score = scores.data();
    walk(rows, item, [=](std::uint32_t column, std::int16_t weight) {
      score[column] += step * static_cast<float>(weight);
    });
  }
  void accumulate(Part part, std::uint32_t item, float scale, std::span<float> scores, std::span<float> marks,
                  std::vector<std::uint32_t>& touched) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(part)];
    const float step = scale * rows.scales[item];
    float* const score = scores.data();
    float* const mark = marks.data();
    walk(rows, item, [=, &touched](std::uint32_t column, std::int16_t weight) {
      if (mark[column] == 0) {
        mark[column] = 1;
        touched.push_back(column);
      }
      score[column] += step * static_cast<float>(weight);
    });
  }
  std::vector<Neighbour> row(Part part, std::uint32_t item) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(part)];
    const float step = rows.scales[item];
    std::vector<Neighbour> found;
    found.reserve(rows.starts[item + 1] - rows.starts[item]);
    walk(rows, item, [&](std::uint32_t column, std::int16_t weight) {
      found.push_back({column, step * static_cast<float>(weight)});
    });
    return found;
  }
  float weight(Part part, std::uint32_t item, std::uint32_t neighbour) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(part)];
    float found = 0;
    walk(rows, item, [&](std::uint32_t column, std::int16_t weight) {
      if (column == neighbour) found = rows.scales[item] * static_cast<float>(weight);
    });
    return found;
  }
  Mix mix() const override {
    Mix mix;
    std::copy(view_.header->mix.begin(), view_.header->mix.end(), mix.part);
    return mix;
  }

  std::optional<TermWeight> idf(std::uint64_t term_hash) const override {
    const auto found = std::lower_bound(view_.vocabulary.begin(), view_.vocabulary.end(), term_hash);
    if (found == view_.vocabulary.end() || *found != term_hash) return std::nullopt;
    const auto term = static_cast<std::uint32_t>(found - view_.vocabulary.begin());
    return TermWeight{term, view_.idf[term]};
  }
  std::span<const float> reranker() const override { return view_.reranker; }
  UnixSeconds trained_at() const override { return UnixSeconds(seconds(view_.header->trained_at)); }
  std::string_view algorithm() const override { return view_.header->algorithm.data(); }
  std::uint64_t bytes() const override { return view_.header->file_bytes; }

 private:
  std::string_view text(const layout::Text& where) const {
    return {view_.text.data() + where.offset, where.bytes};
  }

  std::unique_ptr<const Mapping> mapping_;
  ModelView view_;  // into mapping_
};

}  // namespace

void Model::accumulate(Part part, std::uint32_t item, float scale, std::span<float> scores,
                       std::span<float> marks, std::vector<std::uint32_t>& touched) const {
  for (const Neighbour& neighbour : row(part, item)) {
    if (marks[neighbour.item] == 0) {
      marks[neighbour.item] = 1;
      touched.push_back(neighbour.item);
    }
    scores[neighbour.item] += scale * neighbour.weight;
  }
}

float Model::weight(Part part, std::uint32_t item, std::uint32_t neighbour) const {
  for (const Neighbour& one : row(part, item)) {
    if (one.item == neighbour) return one.weight;
  }
  return 0;
}

Result<Descriptor> open_file(const std::filesystem::path& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    const int error = errno;
    if (error == ENOENT)
      return fail(ErrorCode::kNotFound, "model_absent", {}, path.string() + " is not there");
    return fail(ErrorCode::kUnavailable, "model_io", {}, path.string() + ": " + std::strerror(error));
  }
  if (!S_ISREG(status.st_mode) || status.st_size == 0)
    return fail(ErrorCode::kInvalid, "model_corrupt", {}, path.string() + " is no model file");
  return file;
}

Result<std::shared_ptr<const Model>> Model::open(const std::filesystem::path& path) {
  FRESHET_TRY(file, open_file(path));
  return open(file->get());
}

Result<std::shared_ptr<const Model>> Model::open(int fd) {
  FRESHET_TRY(mapping, map(fd));
  FRESHET_TRY(view, checked_view((*mapping)->bytes()));
  return std::make_shared<const MappedModel>(std::move(*mapping), *view);
}

Result<std::shared_ptr<const Model>> Model::open_again(int fd) {
  FRESHET_TRY(mapping, map(fd));
  FRESHET_TRY(view, view_again((*mapping)->bytes()));
  return std::make_shared<const MappedModel>(std::move(*mapping), *view);
}

}  // namespace freshet::model
