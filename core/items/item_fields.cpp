#include "core/items/item_fields.h"

#include "core/base/json.h"
#include "core/redis/fields.h"

namespace freshet::items {
namespace {

std::string to_text(UnixSeconds at) { return std::to_string(at.time_since_epoch().count()); }

// The shortest text that parses to the same number.
std::string to_text(double number) {
  std::string text;
  json::Writer(text).number(number);
  return text;
}

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
  if (!item.section.empty()) out.emplace_back("section", item.section);
  if (!item.language.empty()) out.emplace_back("language", item.language);
  if (!item.story.empty()) out.emplace_back("story", item.story.str());
  if (item.text_format != TextFormat::kPlain) out.emplace_back("text_format", name_of(item.text_format));
  if (item.expires_at) out.emplace_back("expires_at", to_text(*item.expires_at));
  if (item.weight) out.emplace_back("weight", to_text(*item.weight));
  return out;
}

std::optional<Item> parse_item(const ItemId& id, const ItemValues& values) {
  const auto [published, title, text, author, author_id, url, tags, update_time, hidden, section, language,
              story, text_format, expires_at, weight] = values;
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
  item.section = std::string(section);
  item.language = std::string(language);
  item.story = StoryId::trusted(std::string(story));
  item.text_format = text_format_of(text_format).value_or(TextFormat::kPlain);
  item.expires_at = parse_time(expires_at);
  item.weight = redis::parse<double>(weight);
  return item;
}

}  // namespace freshet::items
