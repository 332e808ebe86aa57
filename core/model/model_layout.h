// The bytes of a model file. Little-endian, as every machine this runs on; sections begin at
// multiples of 64.
//
//   Header · sections in the order of Section, each as long as the header says
//
// Change anything here and kVersion goes up: other versions are refused, `freshetctl train` writes
// a new one.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "core/model/model.h"

namespace freshet::model::layout {

inline constexpr std::array<char, 8> kMagic{'F', 'R', 'S', 'H', 'M', 'O', 'D', 'L'};
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint64_t kAlignment = 64;

enum class Section : std::uint8_t {
  kItems,       // Item × items, ascending by id
  kSlots,       // uint32 × slots_of(items): a hash table of them by id, with kNoItem where none is
  kTags,        // Text × tags of all items; Item says which are whose
  kText,        // the bytes that Text points into
  kTermStarts,  // uint64 × (items + 1), into kTerms
  kTerms,       // TermWeight
  kVocabulary,  // uint64 × terms, ascending
  kIdf,         // float × terms
  kReranker,    // float
  kRows         // of each part: starts, scales, columns, weights
};
// A part's four sections. Row i is entries starts[i] … starts[i + 1] − 1: columns[e] gets
// weights[e] · scales[i].
enum class RowSection : std::uint8_t {
  kStarts,   // uint64 × (items + 1)
  kScales,   // float × items
  kColumns,  // uint16 when items <= kNarrowItems, else uint32
  kWeights   // int16: of the row's greatest magnitude, in 1/32767
};
inline constexpr std::size_t kRowSections = 4;
inline constexpr std::size_t kSections = static_cast<std::size_t>(Section::kRows) + kRowSections * kRelations;
inline constexpr std::uint32_t kMaxNarrowItems = 65536;
inline constexpr float kWeightSteps = 32767;
inline constexpr std::uint32_t kNoItem = kNoIndex;

// At least twice as many as items. An item stands in the first slot that was free at its slot_of()
// or behind it, around the end.
constexpr std::size_t slot_count(std::size_t items) { return std::bit_ceil(2 * items + 1); }
std::size_t home_slot(std::string_view id, std::size_t slots);

constexpr std::size_t index_of(Section section) { return static_cast<std::size_t>(section); }
constexpr std::size_t index_of(Relation relation, RowSection section) {
  return index_of(Section::kRows) + static_cast<std::size_t>(relation) * kRowSections +
         static_cast<std::size_t>(section);
}

struct Extent {
  std::uint64_t offset = 0;  // from the file's first byte
  std::uint64_t bytes = 0;
};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t header_bytes = sizeof(Header);
  std::uint64_t checksum = 0;  // xxh3 of every byte behind this member, to the end of the file
  std::uint64_t file_bytes = 0;
  std::int64_t trained_at = 0;  // unix seconds
  std::uint32_t items = 0;
  std::uint32_t terms = 0;
  std::array<float, kRelations> blend_weights{};
  std::array<char, 20> algorithm{};  // padded with NULs, at least one
  std::array<Extent, kSections> sections{};
};
inline constexpr std::size_t kChecksumStart = 24;  // the first byte that the checksum covers
static_assert(offsetof(Header, file_bytes) == kChecksumStart);
static_assert(sizeof(Header) == 80 + sizeof(Extent) * kSections);

struct TextRef {  // into kText
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

struct Item {
  TextRef id, title, author;
  std::uint32_t first_tag = 0;  // in kTags
  std::uint32_t tags = 0;
  std::int64_t published = 0;  // unix seconds
  float count = 0;
  float decayed_count = 0;
};
static_assert(sizeof(Item) == 48 && sizeof(TermWeight) == 8);

}  // namespace freshet::model::layout
