// What pages show of an item, as members of an object that has been begun.
#pragma once

#include "core/base/ids.h"
#include "core/base/json.h"
#include "core/items/ports.h"

namespace freshet::handlers {

// id; title, update_time, url, author and tags as far as the item store knows them.
inline void write_card(json::Writer& writer, const ItemId& id, const items::ItemCard& card) {
  writer.key("id").string(id.view());
  if (!card.known) return;
  writer.key("title").string(card.title).key("update_time").integer(card.update_time);
  if (!card.url.empty()) writer.key("url").string(card.url);
  if (!card.author.empty()) writer.key("author").string(card.author);
  writer.key("tags").begin_array();
  for (const std::string& tag : card.tags) writer.string(tag);
  writer.end_array();
}

}  // namespace freshet::handlers
