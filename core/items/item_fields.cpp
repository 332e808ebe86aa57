#include "core/items/item_fields.h"

#include "core/redis/fields.h"

namespace freshet::items {
namespace {

std::string to_text(UnixSeconds at) { return std::to_string(at.time_since_epoch().count()); }

std::optional<UnixSeconds> parse_time(std::string_view text) {
  const auto value = redis::parse<std::int64_t>(text);
  if (!value) return std::nullopt;
  return UnixSeconds{seconds{*value}};
}

std::string join_tags(const std::vector<TagName>& tags) {
  std::string out;
  for (const TagName& tag : tags) {
    if (!out.empty()) out += kIdSeparator;
    out += tag.str();
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string_view, std::string>> to_fields(const Item& item) {
  std::vector<std::pair<std::string_view, std::string>> out{{"title", item.title},
                                                            {"published_at", to_text(item.published_at)},
                                                            {"tags", join_tags(item.tags)},
                                                            {"hidden", item.hidden ? "1" : "0"}};
  if (!item.text.empty()) out.emplace_back("text", item.text);
  if (!item.author.empty()) out.emplace_back("author", item.author);
  if (!item.author_id.empty()) out.emplace_back("author_id", item.author_id);
  if (!item.url.empty()) out.emplace_back("url", item.url);
  if (item.update_time) out.emplace_back("update_time", to_text(*item.update_time));
  return out;
}

std::optional<Item> parse_item(const ItemId& id, const ItemValues& values) {
  const auto [published, title, text, author, author_id, url, tags, update_time, hidden] = values;
  const auto date = parse_time(published);
  if (!date) return std::nullopt;
  Item item;
  item.id = id;
  item.published_at = *date;
  item.title = std::string(title);
  item.text = std::string(text);
  item.author = std::string(author);
  item.author_id = std::string(author_id);
  item.url = std::string(url);
  for (const std::string_view tag : redis::split_words(tags, kIdSeparator))
    item.tags.push_back(TagName::trusted(std::string(tag)));
  item.update_time = parse_time(update_time);
  item.hidden = hidden == "1";
  return item;
}

}  // namespace freshet::items
