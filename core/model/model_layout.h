// Binary layout of a model file. Little-endian, like every supported machine. Sections start at
// multiples of 64.
//
//   Header · sections in the order of Section, with the lengths given in the header
//
// Any change here requires a new kVersion. Other versions are refused; `freshetctl train` writes a
// new file.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "core/model/model.h"

namespace freshet::model::layout {

inline constexpr std::array<char, 8> kMagic{'F', 'R', 'S', 'H', 'M', 'O', 'D', 'L'};
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::uint64_t kAlignment = 64;

enum class Section : std::uint8_t {
  kItems,       // Item × items, ascending by id
  kSlots,       // uint32 × slot_count(items): hash table by id, with kNoItem in empty slots
  kTags,        // TextRef × tags of all items; Item has the range
  kText,        // the bytes that TextRef points into
  kTermStarts,  // uint64 × (items + 1), into kTerms
  kTerms,       // TermWeight
  kVocabulary,  // uint64 × terms, ascending
  kIdf,         // float × terms
  kReranker,    // float
  kRanking,     // Ranking × 1
  kRows         // for each relation: starts, scales, columns, weights
};
// The four sections of a relation. Row i has the entries starts[i] … starts[i + 1] − 1; entry e
// adds weights[e] · scales[i] to item columns[e].
enum class RowSection : std::uint8_t {
  kStarts,   // uint64 × (items + 1)
  kScales,   // float × items
  kColumns,  // uint16 if items <= kMaxNarrowItems, otherwise uint32
  kWeights   // int16: fraction of the row's largest magnitude, in 1/32767
};
inline constexpr std::size_t kRowSections = 4;
inline constexpr std::size_t kSections = static_cast<std::size_t>(Section::kRows) + kRowSections * kRelations;
inline constexpr std::uint32_t kMaxNarrowItems = 65536;
inline constexpr float kWeightSteps = 32767;
inline constexpr std::uint32_t kNoItem = kNoIndex;

// Open addressing with at least twice as many slots as items. An item is in the first free slot at
// or after its home_slot(), wrapping around.
constexpr std::size_t slot_count(std::size_t items) { return std::bit_ceil(2 * items + 1); }
std::size_t home_slot(std::string_view id, std::size_t slots);

constexpr std::size_t index_of(Section section) { return static_cast<std::size_t>(section); }
constexpr std::size_t index_of(Relation relation, RowSection section) {
  return index_of(Section::kRows) + static_cast<std::size_t>(relation) * kRowSections +
         static_cast<std::size_t>(section);
}

struct Extent {
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t header_bytes = sizeof(Header);
  std::uint64_t checksum = 0;  // xxh3 of all bytes after this member
  std::uint64_t file_bytes = 0;
  std::int64_t trained_at = 0;  // unix seconds
  std::uint32_t items = 0;
  std::uint32_t terms = 0;
  std::array<float, kRelations> blend_weights{};
  std::array<char, 20> algorithm{};  // NUL-padded, with at least one NUL
  std::array<Extent, kSections> sections{};
};
inline constexpr std::size_t kChecksumStart = 24;  // first byte covered by the checksum
static_assert(offsetof(Header, file_bytes) == kChecksumStart);
static_assert(sizeof(Header) == 80 + sizeof(Extent) * kSections);

struct TextRef {  // range within kText
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

struct Item {
  TextRef id, title;
  TextRef author;               // the name; then, if the author has an id, kIdSeparator and that
  std::uint32_t first_tag = 0;  // index into kTags
  std::uint32_t tags = 0;
  std::int64_t published = 0;  // unix seconds
  float count = 0;
  float decayed_count = 0;
};
static_assert(sizeof(Item) == 48 && sizeof(TermWeight) == 8);

struct Ranking {                  // ChosenRanking
  std::array<char, 16> method{};  // one of kRankingMethods, NUL-padded
  std::uint32_t trend_half_life = 0;
  float cf_weight = 0;
  std::uint32_t discoveries = 0;  // 0 or 1
};
static_assert(sizeof(Ranking) == 28);

}  // namespace freshet::model::layout
