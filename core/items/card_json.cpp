#include "core/items/card_json.h"

namespace freshet::items {

std::string to_json(const ItemCard& card) {
  std::string out;
  json::Writer writer(out);
  writer.key("title").string(card.title).key("update_time").integer(card.update_time);
  if (!card.url.empty()) writer.key("url").string(card.url);
  if (!card.author.empty()) writer.key("author").string(card.author);
  if (!card.author_id.empty()) writer.key("author_id").string(card.author_id);
  writer.key("tags").begin_array();
  for (const std::string& tag : card.tags) writer.string(tag);
  writer.end_array();
  out.shrink_to_fit();
  return out;
}

}  // namespace freshet::items
