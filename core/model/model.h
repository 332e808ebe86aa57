// The recommender's model: one file, made by training (train.h) and replaced by rename. A header
// with magic, version, sizes and a checksum over everything behind it (xxh3) is verified before
// anything is used; every offset and index is checked once, so that accessors need not. So nobody
// may write to it while it is mapped: what a service maps is a copy of its own (model_copy.h), the
// same for all workers, whose pages the kernel shares.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/descriptor.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::model {

// A relation of an item to another, in one of the three parts.
struct Neighbour {
  std::uint32_t item = 0;  // index in the model
  float weight = 0;
};

// One element of a sparse vector: a term of the content (term = index in the vocabulary).
struct TermWeight {
  std::uint32_t term = 0;
  float weight = 0;
};

// The three separately pruned parts: row i are the items that get something when a
// reader likes item i.
enum class Relation : std::uint8_t { kCf, kContent, kColdStart };
inline constexpr std::size_t kRelations = 3;

inline constexpr std::uint32_t kNoIndex = 0xFFFFFFFF;  // the index of no item

// What training chose on its validation part: affinity = Σ over parts of mix[part] · Σ over the
// profile of weight · neighbour weight.
struct BlendWeights {
  float by_relation[kRelations] = {1, 0, 0};
};

// Scores by item are cleared and looked through by lines of so many items, one of the processor's.
inline constexpr std::uint32_t kBlockItems = 16;
constexpr std::size_t block_count(std::size_t items) { return (items + kBlockItems - 1) / kBlockItems; }

// A few items to be found among the neighbours of many, each once. `items` must outlive this.
class SparseIndexSet {
 public:
  explicit SparseIndexSet(std::span<const std::uint32_t> items) : items_(items), next_(items.size()) {
    for (std::uint32_t i = 0; i < items.size(); ++i)
      next_[i] = std::exchange(buckets_[items[i] % buckets_.size()], i + 1);
  }
  std::span<const std::uint32_t> items() const { return items_; }
  // 0: it is none of them. Nearly all neighbours are not.
  std::uint32_t bucket(std::uint32_t item) const { return buckets_[item % buckets_.size()]; }
  // Where it stands in items(), of what maybe() said; nullopt: it is none of them.
  std::optional<std::size_t> find(std::uint32_t item, std::uint32_t bucket_head) const {
    while (bucket_head != 0 && items_[bucket_head - 1] != item) bucket_head = next_[bucket_head - 1];
    return bucket_head == 0 ? std::nullopt : std::optional<std::size_t>(bucket_head - 1);
  }

 private:
  std::span<const std::uint32_t> items_;
  std::array<std::uint32_t, 2048> buckets_{};  // 1 + a place in items(), by what is left of the item
  std::vector<std::uint32_t> next_;          // likewise, the next of equal remainder
};

class Model {
 public:
  // Maps and verifies the file. O(bytes). Errors: kNotFound "model_absent", kInvalid
  // "model_corrupt" (magic, checksum, truncated, an index out of range), kInvalid "model_version"
  // (another version's), kUnavailable "model_io".
  static Result<std::shared_ptr<const Model>> open(const std::filesystem::path& path);
  // The same of an open regular file, which may be closed afterwards.
  static Result<std::shared_ptr<const Model>> open(int fd);
  // The same of one that open() found good and nobody can have changed since. Reads the header
  // only.
  static Result<std::shared_ptr<const Model>> open_trusted(int fd);
  virtual ~Model() = default;

  // --- the item table; indexes are 0..items() − 1, ordered by id's bytes
  virtual std::uint32_t items() const = 0;
  virtual std::optional<std::uint32_t> find(std::string_view id) const = 0;
  // find() of each, kNone for those it does not have. Of many it is several times as fast: their
  // memory is fetched together.
  virtual void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const;
  // What is known of the item will be asked for soon: its memory may be fetched meanwhile.
  virtual void prefetch(std::uint32_t item) const;
  virtual std::string_view id(std::uint32_t item) const = 0;
  virtual std::string_view title(std::uint32_t item) const = 0;
  virtual std::string_view author(std::uint32_t item) const = 0;
  // Instead of what is in `out`, whose memory is used again.
  virtual void tags(std::uint32_t item, std::vector<std::string_view>& out) const = 0;
  virtual UnixSeconds published(std::uint32_t item) const = 0;  // published_at, else the first event
  virtual float count(std::uint32_t item) const = 0;            // events in training, unweighted
  virtual float decayed_count(std::uint32_t item) const = 0;    // Σ 2^(−age/1 d) at trained_at()
  virtual std::span<const TermWeight> terms(std::uint32_t item) const = 0;  // tf-idf, L2 norm 1; by term

  // --- relations
  // Calls are cheap: a view into the file. Weights may be stored narrower than float (Q2). Adds
  // scale · weight of each neighbour of `item` in `part` to scores[neighbour], and sets
  // lines[neighbour / kLine] to 1. scores.size() == items(), lines.size() == lines_of(items()).
  virtual void accumulate(Relation relation, std::uint32_t item, float scale, std::span<float> scores,
                          std::span<std::uint8_t> touched_blocks) const = 0;
  // The row will be accumulated or related soon: its memory may be fetched meanwhile. Before that
  // fetch_place() may fetch what says where it is.
  virtual void prefetch(Relation relation, std::uint32_t item) const;
  virtual void prefetch_row_bounds(Relation relation, std::uint32_t item) const;
  // Adds scale · weight to sums[i] where few.items()[i] is a neighbour of `item`. O(row).
  virtual void accumulate_selected(Relation relation, std::uint32_t item, double scale, const SparseIndexSet& selected,
                      std::span<double> sums) const;
  // The row itself, heaviest first.
  virtual std::vector<Neighbour> row(Relation relation, std::uint32_t item) const = 0;
  virtual BlendWeights blend_weights() const = 0;

  // --- the vocabulary: for items that are newer than the model (content.h makes their vectors)
  virtual std::optional<TermWeight> idf(std::uint64_t term_hash) const = 0;  // term index and its idf

  // --- the re-ranker's parameters (ranking.h gives them meaning); empty: none was learned
  virtual std::span<const float> reranker() const = 0;

  virtual UnixSeconds trained_at() const = 0;
  virtual std::string_view algorithm() const = 0;  // "ease" or "rp3beta"
  virtual std::uint64_t bytes() const = 0;         // of the file
};

// For reading. Errors: those of Model::open() that concern the name: absent, no regular file, not
// readable.
Result<Descriptor> open_model_file(const std::filesystem::path& path);

}  // namespace freshet::model
