// ItemStore on Redis: what the site says of its items, and all that follows from it. A write reads
// the item first (its old tags and date name the keys it must leave). Then come, each behind the
// one before: what lists are made of (item_places.lua) with the entry for the recorder
// (item_fields.h says how it looks); the item and its article, by a script that does nothing when
// the item was written meanwhile; the places that its counters say, and the word to workers and
// lists that it changed. Who lost to another begins anew, so the last entry of an item is what its
// hash says. After a crash between two steps the same write does the rest; until then `freshetctl
// check` finds half of it. When a group's part of stream.max_len waits for the recorder, nothing
// that would add to it is written.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/items/ports.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::items {

class RedisItemStore final : public ItemStore {
 public:
  enum class StreamPolicy : std::uint8_t {
    kAppend,
    kSkip  // for items that come from where the recorder keeps them
  };
  // Both must outlive this.
  RedisItemStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                 StreamPolicy stream_policy = StreamPolicy::kAppend);

  // 3 RTT each at most, 4 in a cluster; put_many: for every 500 items. Errors: kConflict
  // "write_conflict" when others keep writing it; kUnavailable "stream_full".
  Task<Result<void>> put(const Item& item) override;
  Task<Result<void>> put_many(const std::vector<Item>& items) override;
  // Removing what is not there is no error. A late event of a removed item counts, but brings it
  // into no list for the TTL of counters.
  Task<Result<void>> remove(const ItemId& id) override;
  Task<Result<Item>> get(const ItemId& id) override;                                   // 1 RTT
  Task<Result<std::vector<ItemCard>>> cards(const std::vector<ItemId>& ids) override;  // 1 RTT

 private:
  using CardFields = std::array<std::string, 8>;  // of kCardFields
  enum class VisibleChange : std::uint8_t { kNone, kCard, kListRow };
  struct ItemWrite {  // an item to write, and what it was
    const Item* item;
    bool remove;
    std::string rev, old_date;
    CardFields old_fields;                       // what pages show of it
    std::vector<std::string_view> removed_tags;  // tags it leaves; views into `old`
  };
  Task<Result<void>> write(std::vector<ItemWrite> writes);
  Task<Result<void>> finish(const std::vector<ItemWrite>& writes, const redis::Replies& replies);
  Task<Result<void>> read_current(std::vector<ItemWrite>& writes);
  Task<Result<std::vector<ItemWrite>>> write_once(std::vector<ItemWrite>& writes);
  void append_index_update(redis::Pipeline& out, const ItemWrite& item_write) const;
  void append_stream_entry(redis::Pipeline& out, const ItemWrite& item_write) const;
  void append_item_write(redis::Pipeline& out, const ItemWrite& item_write) const;
  static VisibleChange visible_change(const ItemWrite& item_write);
  static bool visibility_changed(const ItemWrite& item_write);

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys keys_;
  static constexpr std::int64_t kNoStream = -1;
  const std::int64_t stream_max_;  // of one stream
};

// One command, and its reply as an item; nullopt when it was never put, or was deleted.
void append_item_read(redis::Pipeline& out, const redis::Keys& keys, const ItemId& id);
std::optional<Item> parse_item(const ItemId& id, const redis::Reply& fields);
// One command, and its reply as a card: for stores that read cards among other things.
void append_card_read(redis::Pipeline& out, const redis::Keys& keys, const ItemId& id);
ItemCard parse_card(const redis::Reply& fields);

}  // namespace freshet::items
