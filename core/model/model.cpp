#include "core/model/model.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "core/model/model_view.h"

namespace freshet::model {
namespace {

// Read-only mapping of a file. Stays valid when the file is replaced.
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

tl::unexpected<Error> map_error() {
  return fail(ErrorCode::kUnavailable, "model_io", {},
              std::string("the model cannot be mapped: ") + std::strerror(errno));
}

Result<std::unique_ptr<const Mapping>> map(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return map_error();
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return map_error();
  return std::make_unique<const Mapping>(at, bytes);
}

template <class Column, class Each>
void for_each_entry(const RowsView& rows, std::span<const Column> columns, std::uint32_t item,
                    const Each& visit) {
  const std::uint64_t end = rows.starts[item + 1];
  const Column* const column = columns.data();
  const std::int16_t* const stored = rows.weights.data();
  for (std::uint64_t at = rows.starts[item]; at < end; ++at) visit(std::uint32_t{column[at]}, stored[at]);
}

// Calls visit(column, stored weight) for each entry of the row. The weight is scales[item] · stored
// weight.
template <class Each>
void for_each_entry(const RowsView& rows, std::uint32_t item, const Each& visit) {
  if (!rows.narrow.empty()) {
    for_each_entry(rows, rows.narrow, item, visit);
  } else {
    for_each_entry(rows, rows.wide, item, visit);
  }
}

constexpr std::size_t kChunkEntries = 16;

template <class Column, class Each>
void for_each_chunk(const Column* columns, const std::int16_t* weights, std::size_t count,
                    const Each& visit) {
  std::size_t at = 0;
  for (; at + kChunkEntries <= count; at += kChunkEntries)
    visit(columns + at, weights + at, std::integral_constant<std::size_t, kChunkEntries>());
  if (at < count) visit(columns + at, weights + at, count - at);
}

// Calls visit(columns, stored weights, count) for the row in chunks. Full chunks pass the count as
// a compile-time constant, so that the loops are unrolled.
template <class Each>
void for_each_chunk(const RowsView& rows, std::uint32_t item, const Each& visit) {
  const std::uint64_t begin = rows.starts[item];
  const std::size_t count = rows.starts[item + 1] - begin;
  const std::int16_t* const weights = rows.weights.data() + begin;
  if (!rows.narrow.empty()) {
    for_each_chunk(rows.narrow.data() + begin, weights, count, visit);
  } else {
    for_each_chunk(rows.wide.data() + begin, weights, count, visit);
  }
}

template <class Value>
void prefetch_range(std::span<const Value> values, std::uint64_t begin, std::uint64_t count) {
  if (values.empty()) return;
  constexpr std::uint64_t kStep = 64 / sizeof(Value);
  for (std::uint64_t at = 0; at < count; at += kStep) __builtin_prefetch(&values[begin + at]);
}

class MappedModel final : public Model {
 public:
  MappedModel(std::unique_ptr<const Mapping> mapping, const ModelView& view)
      : mapping_(std::move(mapping)), view_(view) {}

  std::uint32_t items() const override { return view_.header->items; }
  std::optional<std::uint32_t> find(std::string_view item_id) const override {
    const std::uint32_t item = find_item(view_, item_id);
    return item == layout::kNoItem ? std::nullopt : std::optional(item);
  }
  // Works on batches of ids in passes; each pass prefetches what the next one reads.
  void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const override {
    constexpr std::size_t kBatchIds = 32;
    std::array<std::size_t, kBatchIds> slots{};
    for (std::size_t from = 0; from < ids.size(); from += kBatchIds) {
      const std::size_t count = std::min(kBatchIds, ids.size() - from);
      for (std::size_t i = 0; i < count; ++i) {
        slots[i] = layout::home_slot(ids[from + i], view_.slots.size());
        __builtin_prefetch(&view_.slots[slots[i]]);
      }
      const auto candidate = [&](std::size_t i) { return view_.slots[slots[i]]; };
      for (std::size_t i = 0; i < count; ++i) {
        if (candidate(i) != layout::kNoItem) __builtin_prefetch(&view_.items[candidate(i)]);
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (candidate(i) != layout::kNoItem) __builtin_prefetch(text(view_.items[candidate(i)].id).data());
      }
      for (std::size_t i = 0; i < count; ++i) out[from + i] = find_item_from(view_, slots[i], ids[from + i]);
    }
  }
  std::string_view id(std::uint32_t item) const override { return text(view_.items[item].id); }
  std::string_view title(std::uint32_t item) const override { return text(view_.items[item].title); }
  std::string_view author(std::uint32_t item) const override { return text(view_.items[item].author); }
  void tags(std::uint32_t item, std::vector<std::string_view>& out) const override {
    const layout::Item& entry = view_.items[item];
    out.clear();
    for (const layout::TextRef& tag : view_.tags.subspan(entry.first_tag, entry.tags))
      out.push_back(text(tag));
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

  void accumulate(Relation relation, std::uint32_t item, float scale, std::span<float> scores,
                  std::span<std::uint8_t> touched_blocks) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(relation)];
    const float step = scale * rows.scales[item];
    float* const score = scores.data();
    std::uint8_t* const touched = touched_blocks.data();
    for_each_chunk(rows, item, [=](const auto* columns, const std::int16_t* weights, auto count) {
      float add[kChunkEntries];  // vectorizable; the scatter below is not
      for (std::size_t i = 0; i < count; ++i) add[i] = step * static_cast<float>(weights[i]);
      for (std::size_t i = 0; i < count; ++i) {
        score[columns[i]] += add[i];
        touched[columns[i] / kBlockItems] = 1;
      }
    });
  }
  void prefetch(std::uint32_t item) const override {
    const auto* const at = reinterpret_cast<const char*>(&view_.items[item]);
    __builtin_prefetch(at);  // may straddle two cache lines
    __builtin_prefetch(at + sizeof(layout::Item) - 1);
  }
  void prefetch_row_bounds(Relation relation, std::uint32_t item) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(relation)];
    __builtin_prefetch(&rows.starts[item]);
    __builtin_prefetch(&rows.scales[item]);
  }
  void prefetch(Relation relation, std::uint32_t item) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(relation)];
    const std::uint64_t begin = rows.starts[item], entries = rows.starts[item + 1] - begin;
    prefetch_range(rows.narrow, begin, entries);
    prefetch_range(rows.wide, begin, entries);
    prefetch_range(rows.weights, begin, entries);
  }
  void accumulate_selected(Relation relation, std::uint32_t item, double scale,
                           const SparseIndexSet& selected, std::span<double> sums) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(relation)];
    const double step = scale * static_cast<double>(rows.scales[item]);
    for_each_chunk(rows, item, [&](const auto* columns, const std::int16_t* weights, auto count) {
      std::uint32_t any_selected = 0;  // usually 0, so one branch per chunk is enough
      for (std::size_t i = 0; i < count; ++i) any_selected |= selected.bucket(columns[i]);
      for (std::size_t i = 0; any_selected != 0 && i < count; ++i) {
        const std::uint32_t bucket_head = selected.bucket(columns[i]);
        if (bucket_head == 0) continue;
        if (const auto at = selected.find(columns[i], bucket_head)) sums[*at] += step * weights[i];
      }
    });
  }
  std::vector<Neighbour> row(Relation relation, std::uint32_t item) const override {
    const RowsView& rows = view_.rows[static_cast<std::size_t>(relation)];
    const float step = rows.scales[item];
    std::vector<Neighbour> found;
    found.reserve(rows.starts[item + 1] - rows.starts[item]);
    for_each_entry(rows, item, [&](std::uint32_t column, std::int16_t weight) {
      found.push_back({column, step * static_cast<float>(weight)});
    });
    return found;
  }
  BlendWeights blend_weights() const override {
    BlendWeights blend;
    std::copy(view_.header->blend_weights.begin(), view_.header->blend_weights.end(), blend.by_relation);
    return blend;
  }

  std::optional<TermWeight> idf(std::uint64_t term_hash) const override {
    const auto found = std::lower_bound(view_.vocabulary.begin(), view_.vocabulary.end(), term_hash);
    if (found == view_.vocabulary.end() || *found != term_hash) return std::nullopt;
    const auto term = static_cast<std::uint32_t>(found - view_.vocabulary.begin());
    return TermWeight{term, view_.idf[term]};
  }
  std::span<const float> reranker() const override { return view_.reranker; }
  ChosenRanking ranking() const override {
    const layout::Ranking& stored = view_.ranking.front();
    const auto method = std::ranges::find(kRankingMethods, method_name(stored));
    return {static_cast<RankingMethod>(method - kRankingMethods.begin()), seconds{stored.trend_half_life},
            stored.cf_weight, stored.discoveries != 0};
  }
  UnixSeconds trained_at() const override { return UnixSeconds(seconds(view_.header->trained_at)); }
  std::string_view algorithm() const override { return view_.header->algorithm.data(); }
  std::uint64_t bytes() const override { return view_.header->file_bytes; }

 private:
  std::string_view text(const layout::TextRef& ref) const {
    return {view_.text.data() + ref.offset, ref.bytes};
  }

  std::unique_ptr<const Mapping> mapping_;
  ModelView view_;  // views into mapping_
};

}  // namespace

std::string ranking_name(const ChosenRanking& ranking) {
  const auto half_life = ranking.trend_half_life.count();
  const std::string trend = half_life == 0 ? "views by age"
                            : half_life < 3600
                                ? "views halved every " + std::to_string(half_life / 60) + " min"
                                : "views halved every " + std::to_string(half_life / 3600) + " h";
  const std::string discoveries = ranking.discoveries ? ", with discoveries" : "";
  switch (ranking.method) {
    case RankingMethod::kUntested:
      return "untested";
    case RankingMethod::kTrend:
      return trend;
    case RankingMethod::kAffinity: {
      std::array<char, 16> weight{};
      std::snprintf(weight.data(), weight.size(), "%g", static_cast<double>(ranking.cf_weight));
      return trend + " x (1 + " + weight.data() + " x affinity)" + discoveries;
    }
    case RankingMethod::kReranker:
      return "re-ranker" + discoveries;
  }
  return "";
}

void Model::find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < ids.size(); ++i) out[i] = find(ids[i]).value_or(kNoIndex);
}

void Model::prefetch(std::uint32_t /*item*/) const {}
void Model::prefetch(Relation /*relation*/, std::uint32_t /*item*/) const {}
void Model::prefetch_row_bounds(Relation /*relation*/, std::uint32_t /*item*/) const {}

void Model::accumulate_selected(Relation relation, std::uint32_t item, double scale,
                                const SparseIndexSet& selected, std::span<double> sums) const {
  for (const Neighbour& each : row(relation, item)) {
    if (const auto at = selected.find(each.item, selected.bucket(each.item)))
      sums[*at] += scale * static_cast<double>(each.weight);
  }
}

Result<Descriptor> open_model_file(const std::filesystem::path& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    const int error = errno;
    if (error == ENOENT)
      return fail(ErrorCode::kNotFound, "model_absent", {}, path.string() + " does not exist");
    return fail(ErrorCode::kUnavailable, "model_io", {}, path.string() + ": " + std::strerror(error));
  }
  if (!S_ISREG(status.st_mode) || status.st_size == 0)
    return fail(ErrorCode::kInvalid, "model_corrupt", {}, path.string() + " is not a model file");
  return file;
}

Result<std::shared_ptr<const Model>> Model::open(const std::filesystem::path& path) {
  FRESHET_TRY(file, open_model_file(path));
  return open(file->get());
}

Result<std::shared_ptr<const Model>> Model::open(int fd) {
  FRESHET_TRY(mapping, map(fd));
  FRESHET_TRY(view, checked_view((*mapping)->bytes()));
  return std::make_shared<const MappedModel>(std::move(*mapping), *view);
}

Result<std::shared_ptr<const Model>> Model::open_trusted(int fd) {
  FRESHET_TRY(mapping, map(fd));
  FRESHET_TRY(view, trusted_view((*mapping)->bytes()));
  return std::make_shared<const MappedModel>(std::move(*mapping), *view);
}

}  // namespace freshet::model
