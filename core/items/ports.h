// An item (an article, topic or post of the site), what is shown of it, and the store of items as a
// port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::items {

struct Item {
  ItemId id;
  std::string title, text, author, url;
  std::vector<TagName> tags;
  UnixSeconds published_at;
  std::optional<UnixSeconds> update_time;
  bool hidden = false;
};

inline constexpr UnixSeconds kNever = UnixSeconds::max();

struct ItemCard {  // what a list shows of an item; empty fields when the store does not know it
  std::string title, url, author;
  std::vector<std::string> tags;
  std::int64_t update_time = 0;  // unix seconds; of publication when it was never updated
  std::string json;  // what pages show of it, made once: json_of() of all that; empty of an unknown one
  bool known = false, deleted = false;
  UnixSeconds visible_from;  // its date, which may be ahead; kNever: hidden or deleted
  bool is_hidden_at(UnixSeconds now) const { return visible_from > now; }  // not to be shown to anybody
};

class ItemStore {
 public:
  virtual ~ItemStore() = default;
  // 3 RTT each (put_many: for every 500 items): what it was, what lists are made of, the item.
  // Writing an item re-keys its ranks when published_at, hidden or tags changed, and tells every
  // worker to drop its lists when one could show it wrongly.
  virtual Task<Result<void>> put(const Item& item) = 0;
  virtual Task<Result<void>> put_many(const std::vector<Item>& items) = 0;
  virtual Task<Result<void>> remove(const ItemId& id) = 0;
  // Errors: kNotFound "unknown_item".
  virtual Task<Result<Item>> get(const ItemId& id) = 0;
  // 1 RTT: what lists and pages show of each, in order.
  virtual Task<Result<std::vector<ItemCard>>> cards(const std::vector<ItemId>& ids) = 0;
};

}  // namespace freshet::items
