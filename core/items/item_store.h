// ItemStore on Redis: what the site says of its items, and all that follows from it. A write
// reads the item first (its old tags and date name the keys it must leave), then runs one atomic
// script that starts over when the item has changed in between, and gives the item the places that
// its counters say. The same script appends the write to the recorder's stream (item_fields.h says
// how entries look); when stream.max_len entries wait there, nothing is written.
#pragma once

#include <optional>

#include "core/config/settings.h"
#include "core/items/ports.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::items {

class RedisItemStore final : public ItemStore {
 public:
  enum class Tell : std::uint8_t {
    kRecorder,
    kNobody  // for items that come from where the recorder keeps them
  };
  // Both must outlive this.
  RedisItemStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                 Tell tell = Tell::kRecorder);

  // 2 RTT each, and 1 when something of it is counted; put_many: for every 500 items. Errors:
  // kConflict "item_busy" when others keep writing it; kUnavailable "stream_full".
  Task<Result<void>> put(const Item& item) override;
  Task<Result<void>> put_many(const std::vector<Item>& items) override;
  // Removing what is not there is no error. A late event of a removed item counts, but brings it
  // into no list for the TTL of counters.
  Task<Result<void>> remove(const ItemId& id) override;
  Task<Result<Item>> get(const ItemId& id) override;                                   // 1 RTT
  Task<Result<std::vector<ItemCard>>> cards(const std::vector<ItemId>& ids) override;  // 1 RTT

 private:
  struct Change {  // an item to write, and what it was
    const Item* item;
    bool remove;
    std::string old_tags, old_date;
    std::vector<std::string_view> gone;  // tags it leaves; views into old_tags
    bool dark() const { return remove || item->hidden; }
  };
  Task<Result<void>> write(std::vector<Change> changes);
  Task<Result<void>> place(const std::vector<Change>& changes, const redis::Replies& replies);
  Task<Result<void>> read_old(std::vector<Change>& changes);
  Task<Result<std::vector<Change>>> write_once(std::vector<Change>& changes);
  void append_put(redis::Pipeline& out, const Change& change) const;

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys keys_;
  static constexpr std::int64_t kNoStream = -1;  // item_put.lua knows it too
  const std::int64_t stream_max_;
};

// One command, and its reply as an item; nullopt when it was never put, or was deleted.
void append_item(redis::Pipeline& out, const redis::Keys& keys, const ItemId& id);
std::optional<Item> item_of(const ItemId& id, const redis::Reply& fields);
// One command, and its reply as a card: for stores that read cards among other things.
void append_card(redis::Pipeline& out, const redis::Keys& keys, const ItemId& id);
ItemCard card_of(const redis::Reply& fields);

}  // namespace freshet::items
