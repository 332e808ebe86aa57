// What pages show of an item, as members of a JSON object that has been begun.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/items/ports.h"

namespace freshet::items {

// title, update_time, url, author and tags of a card that is known.
std::string to_json(const ItemCard& card);

// id, and what the item store knows.
inline void write_card(json::Writer& writer, const ItemId& id, const ItemCard& card) {
  writer.key("id").string(id.view());
  if (!card.json.empty()) writer.raw(card.json);
}

}  // namespace freshet::items
