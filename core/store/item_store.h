// feed::ItemStore on Redis: what the site says of its items, and all that follows from it. A write reads the
// item first (its old tags and date name the keys it must leave), then runs one atomic script that starts
// over when the item has changed in between.
#pragma once

#include "core/async/redis.h"
#include "core/base/settings.h"
#include "core/feed/ports.h"
#include "core/store/keys.h"

namespace freshet::store {

class RedisItemStore final : public feed::ItemStore {
 public:
  // `redis` must outlive this.
  RedisItemStore(redis::Redis& redis, const Settings& settings, Keys keys);

  // 2 RTT each; with hash tags 3. put_many: the same for every 500 items. Errors: kConflict "item_busy" when
  // others keep writing it.
  Task<Result<void>> put(const feed::Item& item) override;
  Task<Result<void>> put_many(const std::vector<feed::Item>& items) override;
  // Removing what is not there is no error. A late event of a removed item counts, but brings it into no list
  // for the TTL of counters.
  Task<Result<void>> remove(const ItemId& id) override;
  Task<Result<feed::Item>> get(const ItemId& id) override;                                   // 1 RTT
  Task<Result<std::vector<feed::ItemCard>>> cards(const std::vector<ItemId>& ids) override;  // 1 RTT

 private:
  struct Change {  // an item to write, and what it was
    const feed::Item* item;
    bool remove;
    std::string old_tags, old_date;
    std::vector<std::string_view> gone;  // tags it leaves; views into old_tags
    bool dark() const { return remove || item->hidden; }
  };
  Task<Result<void>> write(std::vector<Change> changes);
  Task<Result<void>> read_old(std::vector<Change>& changes);
  Task<Result<std::vector<Change>>> write_once(std::vector<Change>& changes);
  Task<Result<std::vector<Change>>> write_with_tags(std::vector<Change>& changes);
  void append_put(redis::Pipeline& out, const Change& change) const;
  void append_index(redis::Pipeline& out, const Change& change, const redis::Reply& placed) const;
  void append_place_keys(redis::Pipeline& out, const Change& change) const;

  redis::Redis& redis_;
  const EngagementSettings engagement_;
  const ListSettings list_;
  const Keys keys_;
};

// One command, and its reply as a card: for stores that read cards among other things.
void append_card(redis::Pipeline& out, const Keys& keys, const ItemId& id);
feed::ItemCard card_of(const redis::Reply& fields);

}  // namespace freshet::store
