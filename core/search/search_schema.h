// What a document of the search index is made of. The writer and recall both go by this file.
//
//   Q{id}        the item, once in the index                  boolean
//   {word}       title (three times) and text                 with positions
//   S{word}      title                                        what interests are made of
//   K{tag}       tags, case as given
//   A{author}    author, case as given
//   Z…           stems of the words, when there is a stemmer
//   value 0      published_at, sortable_serialise()           ranges of time
//   value 1      published_at and id, see order_key()         order among equals
#pragma once

#include <xapian.h>

#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/items/ports.h"

namespace freshet::search {

inline constexpr Xapian::valueno kPublishedSlot = 0;
inline constexpr Xapian::valueno kOrderSlot = 1;
inline constexpr char kTitlePrefix = 'S';
inline constexpr char kTagPrefix = 'K';

// Errors: kInternal "bad_stemmer": Xapian knows no such language.
Result<Xapian::Stem> make_stemmer(const std::string& name);

std::string id_term(const ItemId& item);
// The document of `item`, with its id as data.
Xapian::Document make_document(const items::Item& item, const Xapian::Stem& stemmer);

// Its bytes order as (published, id) do, so that Xapian breaks ties as recall does, and an MSet
// brings both along without a read of the document.
std::string order_key(UnixSeconds published, const ItemId& item);
struct OrderKey {
  UnixSeconds published;
  std::string_view item;
};
// Whether it is long enough for one.
bool is_order_key(std::string_view key);
// REQUIRES: is_order_key(). What it points to lies in `key`.
OrderKey parse_order_key(std::string_view key);

// Matches items with from ≤ published < before; has no weight under OP_FILTER.
Xapian::Query published_within(UnixSeconds from, UnixSeconds before);

}  // namespace freshet::search
