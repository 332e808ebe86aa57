// Items (the site's articles, topics or posts), their cards, and the item store's port.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::items {

using StoryId = Id<struct StoryTag>;  // groups the items about one story

enum class TextFormat : std::uint8_t { kPlain, kHtml, kMarkdown };
inline constexpr std::array<std::string_view, 3> kTextFormats{"plain", "html", "markdown"};
constexpr std::string_view name_of(TextFormat format) {
  return kTextFormats[static_cast<std::size_t>(format)];
}
// nullopt for another name.
constexpr std::optional<TextFormat> text_format_of(std::string_view name) {
  for (std::size_t i = 0; i < kTextFormats.size(); ++i) {
    if (kTextFormats[i] == name) return static_cast<TextFormat>(i);
  }
  return std::nullopt;
}

inline constexpr double kMaxWeight = 10;

struct Item {
  ItemId id;
  std::string title, text, author, url;
  std::string author_id;      // as it was put; empty: the author's name is their id (author_key())
  std::vector<TagName> tags;  // as they were put; no two have the same key
  UnixSeconds published_at;
  std::optional<UnixSeconds> update_time;
  bool hidden = false;
  std::string section;   // the site's department, such as "Sports"
  std::string language;  // a BCP 47 tag
  StoryId story;
  TextFormat text_format = TextFormat::kPlain;
  std::optional<UnixSeconds> expires_at;  // after published_at
  std::optional<double> weight;           // 0..kMaxWeight; absent: 1
  bool operator==(const Item&) const = default;
};

inline constexpr UnixSeconds kNever = UnixSeconds::max();

struct ItemCard {  // The part of an item that pages show; empty fields if the item is unknown.
  std::string title, url, author, author_id;
  std::vector<std::string> tags;
  std::int64_t update_time = 0;  // unix s; the publish time if the item was never updated
  std::string json;              // to_json() of the fields above, rendered once; empty if the item is unknown
  bool known = false, deleted = false;
  UnixSeconds visible_from;  // publish time, possibly in the future; kNever: hidden or deleted
  bool is_hidden_at(UnixSeconds now) const { return visible_from > now; }
};

class ItemStore {
 public:
  virtual ~ItemStore() = default;
  // 3 RTT each (put_many: per 500 items): read the item, update the indexes, write the item.
  // Updates the item's ranks if published_at, hidden or tags changed, and tells all workers to
  // invalidate their lists if any list may now be wrong.
  virtual Task<Result<void>> put(const Item& item) = 0;
  virtual Task<Result<void>> put_many(const std::vector<Item>& items) = 0;
  virtual Task<Result<void>> remove(const ItemId& id) = 0;
  // Errors: kNotFound "unknown_item".
  virtual Task<Result<Item>> get(const ItemId& id) = 0;
  // Cards of the items, in order. 1 RTT.
  virtual Task<Result<std::vector<ItemCard>>> cards(const std::vector<ItemId>& ids) = 0;
};

}  // namespace freshet::items
