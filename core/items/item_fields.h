// An item as names and values, as it stands in its hash (item:{id}) and in its entry of the
// recorder's stream.
//
// An entry of the stream is `op`, `id` and, for put, the fields of the item:
//   op put      this is what the item is now
//   op delete   it is gone
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

inline constexpr std::array<std::string_view, 8> kItemFields{
    "published_at", "title", "text", "author", "url", "tags", "update_time", "hidden"};
using ItemValues = std::array<std::string_view, kItemFields.size()>;  // in that order; "" for what is absent

// What is empty is left out, except title and tags.
std::vector<std::pair<std::string_view, std::string>> to_fields(const Item& item);
// nullopt when there is no publish time: the item was never put, or was deleted.
std::optional<Item> parse_item(const ItemId& id, const ItemValues& values);

}  // namespace freshet::items
