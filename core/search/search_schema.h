// Terms and values of a document of the search index. Used by the writer and by recall.
//
//   Q{id}        the item, unique in the index                boolean; a long id ends with a hash
//   {word}       of title, tags, author and readable text     with positions
//   F{word}      a word without accents, if it has any
//   G{letters}   three characters of a run that a dictionary split into words
//   S{word}      title                                        source of reader interests
//   K{tag}       tags, folded
//   A{author}    the author's key, folded
//   Z{stem}      of each word that has one, see stem_term()
//   value 0      published_at, sortable_serialise()           time ranges
//   value 1      published_at and id, see order_key()         order of ties
//   value 2      published_at and fingerprint, see ItemState  changes of the index
//
// Words are those of core/text/words.h.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/items/ports.h"

namespace freshet::search {

inline constexpr Xapian::valueno kPublishedSlot = 0;
inline constexpr Xapian::valueno kOrderSlot = 1;
inline constexpr Xapian::valueno kItemStateSlot = 2;
inline constexpr char kTitlePrefix = 'S';
inline constexpr char kTagPrefix = 'K';
inline constexpr char kUnaccentedPrefix = 'F';
inline constexpr char kFragmentPrefix = 'G';
inline constexpr char kStemPrefix = 'Z';

// How often a word of each field counts. Chosen with tests/bench/field_weights.py: see
// PERFORMANCE.md.
struct FieldWeights {
  Xapian::termcount title = 4, tag = 3, author = 2, text = 1;
};

// Errors: kInternal "bad_stemmer" if Xapian does not know the language.
Result<Xapian::Stem> make_stemmer(const std::string& name);

// The term that all forms of a word share: its stem, or the word itself without a stemmer or if it
// cannot have a stem. REQUIRES: a normalized word, as from text::for_each_token().
std::string stem_term(const Xapian::Stem& stemmer, const std::string& word);

// Metadata of a time slice: the version of its terms.
inline constexpr char kVersionKey[] = "pipeline";
// The version of the terms that make_document() stores with this stemmer. Includes
// text::pipeline_version().
std::string terms_version(const std::string& stemmer);
// Returns true if documents of that version have stems of this stemmer. Always false for "none".
bool has_stems_of(std::string_view terms_version, const std::string& stemmer);
// The version of an index with documents of two versions. Equals neither, and has_stems_of() is
// true of it if it is true of both.
std::string mixed_version(std::string_view a, std::string_view b);

std::string id_term(const ItemId& item);
// The document of `item`, with its id as data.
Xapian::Document make_document(const items::Item& item, const Xapian::Stem& stemmer,
                               const FieldWeights& weights = {});

// A key whose bytes sort like (published, id), so that Xapian breaks ties as recall does and an
// MSet returns both without reading the document.
std::string order_key(UnixSeconds published, const ItemId& item);
struct OrderKey {
  UnixSeconds published;
  std::string_view item;
};
// True if it is long enough to be an order key.
bool is_order_key(std::string_view key);
// REQUIRES: is_order_key(). The result points into `key`.
OrderKey parse_order_key(std::string_view key);

// Tells whether an item's document has changed without reading it.
struct ItemState {
  UnixSeconds published;
  std::uint64_t fingerprint = 0;  // of the document's terms and values; 56 bits
};
ItemState parse_item_state(std::string_view value);  // zeros if it is none

// Matches items with from ≤ published < before; without weight under OP_FILTER.
Xapian::Query published_within(UnixSeconds from, UnixSeconds before);

}  // namespace freshet::search
