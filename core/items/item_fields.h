// An item as names and values, as stored in its hash (item:{id}) and in its entry of the recorder's
// stream.
//
// A stream entry is `op`, `id` and, for put, the item's fields:
//   op put      the item's new state
//   op delete   the item was removed
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/items/ports.h"

namespace freshet::items {

inline constexpr std::string_view kOpPut = "put";
inline constexpr std::string_view kOpDelete = "delete";

inline constexpr std::array<std::string_view, 15> kItemFields{
    "published_at", "title",   "text",     "author", "author_id",   "url",        "tags",  "update_time",
    "hidden",       "section", "language", "story",  "text_format", "expires_at", "weight"};
// In the order of kItemFields; "" if absent.
using ItemValues = std::array<std::string_view, kItemFields.size()>;

// Omits empty values, except title and tags, and the format of plain text.
std::vector<std::pair<std::string_view, std::string>> to_fields(const Item& item);
// nullopt without a publish time: the item was never PUT, or was deleted.
std::optional<Item> parse_item(const ItemId& id, const ItemValues& values);

}  // namespace freshet::items
