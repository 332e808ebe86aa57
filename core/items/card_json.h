// Writes the JSON members of an item that pages show into an object that is already open.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/items/ports.h"

namespace freshet::items {

// title, update_time, url, author, author_id and tags of a known card.
std::string to_json(const ItemCard& card);

// Writes the id, and the other members if the item is known.
inline void write_card(json::Writer& writer, const ItemId& id, const ItemCard& card) {
  writer.key("id").string(id.view());
  if (!card.json.empty()) writer.raw(card.json);
}

}  // namespace freshet::items
