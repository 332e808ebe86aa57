// The recommendation model: one file, written by training (train.h) and replaced by rename. open()
// verifies the header, a checksum of the content (xxh3) and every offset and index, so the
// accessors do no checks. The file must therefore not change while it is mapped. A service maps a
// private copy (model_copy.h), whose pages all workers share.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/descriptor.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::model {

// An item related to another one, in one of the relation matrices.
struct Neighbour {
  std::uint32_t item = 0;  // index in the model
  float weight = 0;
};

// An element of a sparse content vector. `term` is an index into the vocabulary.
struct TermWeight {
  std::uint32_t term = 0;
  float weight = 0;
};

// The relation matrices, pruned separately. Row i lists the items that gain affinity when a reader
// likes item i.
enum class Relation : std::uint8_t { kCf, kContent, kColdStart };
inline constexpr std::size_t kRelations = 3;

inline constexpr std::uint32_t kNoIndex = 0xFFFFFFFF;  // index of no item

// Weights of the relations, tuned on the validation set: affinity = Σ over relations of blend
// weight · Σ over the profile of event weight · neighbour weight.
struct BlendWeights {
  float by_relation[kRelations] = {1, 0, 0};
};

// How recommendations are scored. Training chooses by comparing rankings on the site's own past.
enum class RankingMethod : std::uint8_t {
  kUntested,  // there was too little to compare
  kTrend,     // by trend alone
  kAffinity,  // trend · (1 + cf_weight · affinity)
  kReranker,
};
inline constexpr std::array<std::string_view, 4> kRankingMethods{"untested", "trend", "affinity",
                                                                 "reranker"};  // names in the file
struct ChosenRanking {
  RankingMethod method = RankingMethod::kUntested;
  // The trend is the sum of an item's views, each halved with this half-life. 0: the power law of
  // core/recommend/ranker.h.
  seconds trend_half_life{0};
  float cf_weight = 2;
  bool discoveries = true;
  bool operator==(const ChosenRanking&) const = default;
};
// For tables and messages: "views halved every 15 min x (1 + 0.5 x affinity)".
std::string ranking_name(const ChosenRanking& ranking);

// Scores are cleared and scanned in blocks of this many items, one cache line.
inline constexpr std::uint32_t kBlockItems = 16;
constexpr std::size_t block_count(std::size_t items) { return (items + kBlockItems - 1) / kBlockItems; }

// A small set of distinct items with a fast membership test, for scanning long rows of neighbours.
// `items` must outlive this.
class SparseIndexSet {
 public:
  explicit SparseIndexSet(std::span<const std::uint32_t> items) : items_(items), next_(items.size()) {
    for (std::uint32_t i = 0; i < items.size(); ++i)
      next_[i] = std::exchange(buckets_[items[i] % buckets_.size()], i + 1);
  }
  std::span<const std::uint32_t> items() const { return items_; }
  // Prefilter: 0 if the item is certainly not in the set, which is the usual case. Otherwise the
  // value to pass to find().
  std::uint32_t bucket(std::uint32_t item) const { return buckets_[item % buckets_.size()]; }
  // Position in items(), given the result of bucket(); nullopt if the item is not in the set.
  std::optional<std::size_t> find(std::uint32_t item, std::uint32_t bucket_head) const {
    while (bucket_head != 0 && items_[bucket_head - 1] != item) bucket_head = next_[bucket_head - 1];
    return bucket_head == 0 ? std::nullopt : std::optional<std::size_t>(bucket_head - 1);
  }

 private:
  std::span<const std::uint32_t> items_;
  // 1 + position in items(), by item modulo the number of buckets; 0: empty
  std::array<std::uint32_t, 2048> buckets_{};
  // For each position in items(): 1 + position of the next item in the same bucket; 0: none.
  std::vector<std::uint32_t> next_;
};

class Model {
 public:
  // Maps and verifies the file. O(bytes). Errors: kNotFound "model_absent"; kInvalid
  // "model_corrupt" (magic, checksum, truncated, an index out of range), "model_version" (another
  // version); kUnavailable "model_io".
  static Result<std::shared_ptr<const Model>> open(const std::filesystem::path& path);
  // The same for an open regular file. The descriptor may be closed afterwards.
  static Result<std::shared_ptr<const Model>> open(int fd);
  // Maps a file that open() has verified and that cannot have changed since. Reads only the header.
  static Result<std::shared_ptr<const Model>> open_trusted(int fd);
  virtual ~Model() = default;

  // --- The item table; indexes are 0..items() − 1, ordered by the bytes of the id
  virtual std::uint32_t items() const = 0;
  virtual std::optional<std::uint32_t> find(std::string_view id) const = 0;
  // find() for each id, kNoIndex if absent. Several times faster than single calls, because memory
  // is prefetched for many ids together.
  virtual void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const;
  // Hint that the item's metadata will be read soon; may prefetch it.
  virtual void prefetch(std::uint32_t item) const;
  virtual std::string_view id(std::uint32_t item) const = 0;
  virtual std::string_view title(std::uint32_t item) const = 0;
  // As in model::layout::Item.
  virtual std::string_view author(std::uint32_t item) const = 0;
  // Replaces the content of `out` and reuses its memory.
  virtual void tags(std::uint32_t item, std::vector<std::string_view>& out) const = 0;
  // Returns published_at, otherwise the time of the first event.
  virtual UnixSeconds published(std::uint32_t item) const = 0;
  virtual float count(std::uint32_t item) const = 0;          // events in training, unweighted
  virtual float decayed_count(std::uint32_t item) const = 0;  // Σ 2^(−age/1 d) at trained_at()
  // Returns the tf-idf vector, L2 norm 1, ascending by term.
  virtual std::span<const TermWeight> terms(std::uint32_t item) const = 0;

  // --- Relations
  // Adds scale · weight of each neighbour of `item` to scores[neighbour] and sets
  // touched_blocks[neighbour / kBlockItems] to 1. Requires scores.size() == items() and
  // touched_blocks.size() == block_count(items()).
  virtual void accumulate(Relation relation, std::uint32_t item, float scale, std::span<float> scores,
                          std::span<std::uint8_t> touched_blocks) const = 0;
  // Hint that the row will be accumulated soon; may prefetch it. prefetch_row_bounds() may be
  // called earlier to prefetch the row's location.
  virtual void prefetch(Relation relation, std::uint32_t item) const;
  virtual void prefetch_row_bounds(Relation relation, std::uint32_t item) const;
  // Adds scale · weight to sums[i] if selected.items()[i] is a neighbour of `item`. O(row).
  virtual void accumulate_selected(Relation relation, std::uint32_t item, double scale,
                                   const SparseIndexSet& selected, std::span<double> sums) const;
  // The row, heaviest neighbour first.
  virtual std::vector<Neighbour> row(Relation relation, std::uint32_t item) const = 0;
  virtual BlendWeights blend_weights() const = 0;

  // --- The vocabulary, for the vectors of items newer than the model (content.h)
  virtual std::optional<TermWeight> idf(std::uint64_t term_hash) const = 0;  // term index and idf

  // --- Parameters of the re-ranker (rerank.h); empty if none was trained
  virtual std::span<const float> reranker() const = 0;
  virtual ChosenRanking ranking() const = 0;

  virtual UnixSeconds trained_at() const = 0;
  virtual std::string_view algorithm() const = 0;  // "ease" or "rp3beta"
  virtual std::uint64_t bytes() const = 0;         // size of the file
};

// Opens the file for reading. Errors: those of Model::open() about the file itself: absent, not a
// regular file, not readable.
Result<Descriptor> open_model_file(const std::filesystem::path& path);

}  // namespace freshet::model
