// ItemStore on Redis: the site's items and everything derived from them.
//
// A write takes three steps:
// 1. Read the item: its old tags and date determine the keys to remove it from.
// 2. Update the indexes that lists are built from (item_index.lua) and append the recorder's stream
//    entry (item_fields.h), then write the item and its article by a script that does nothing if
//    the item was written in between.
// 3. Update ranks, and publish the change to workers and lists.
//
// A writer that lost the race starts over, so an item's last stream entry always matches its hash.
// After a crash between two steps, repeating the write completes it; until then `freshetctl check`
// reports the item. While a partition's share of stream.max_len is waiting for the recorder, writes
// that would add to it are rejected.
#pragma once

#include <array>
#include <cstdint>
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
    kSkip  // for items that come from the recorder's database
  };
  // Both must outlive this.
  RedisItemStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                 StreamPolicy stream_policy = StreamPolicy::kAppend);

  // At most 3 RTT each, 4 in a cluster; put_many: per 500 items. Errors: kConflict "write_conflict"
  // if others keep writing the item; kUnavailable "stream_full".
  Task<Result<void>> put(const Item& item) override;
  Task<Result<void>> put_many(const std::vector<Item>& items) override;
  // Removing an unknown item is not an error. Late events of a removed item are counted, but do not
  // bring it back to lists during the counter TTL.
  Task<Result<void>> remove(const ItemId& id) override;
  Task<Result<Item>> get(const ItemId& id) override;                                   // 1 RTT
  Task<Result<std::vector<ItemCard>>> cards(const std::vector<ItemId>& ids) override;  // 1 RTT

 private:
  using CardFields = std::array<std::string, 9>;  // values of kCardFields
  enum class VisibleChange : std::uint8_t { kNone, kCard, kListRow };
  struct ItemWrite {  // an item to write, and its current state in Redis
    const Item* item;
    bool remove;
    std::string rev, old_date;
    CardFields old_fields;                  // the fields that pages show
    std::vector<std::string> removed_tags;  // their keys
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
  const std::int64_t stream_max_;  // per stream
};

// Appends one HMGET; parse_item() reads its reply: nullopt if the item was never PUT, or was
// deleted.
void append_item_read(redis::Pipeline& out, const redis::Keys& keys, const ItemId& id);
std::optional<Item> parse_item(const ItemId& id, const redis::Reply& fields);
// Appends one HMGET; parse_card() reads its reply. For stores that read cards in a pipeline with
// other data.
void append_card_read(redis::Pipeline& out, const redis::Keys& keys, const ItemId& id);
ItemCard parse_card(const redis::Reply& fields);

}  // namespace freshet::items
