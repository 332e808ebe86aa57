// feed::WaterfallStore on Redis: one ZSET a timeline (core/redis/keys.h), and timeline_*.lua, where the
// promises of each step stand.
//
// Bytes of a timeline by MEMORY USAGE (Redis 7.0), ids of 8 and of 24 bytes: of no item 104, of 10 items 264
// and 456, of 128 about 15,900 and 17,900, of 500 about 51,500 and 59,800; up to 126 items Redis packs them.
// "a timeline costs Redis so many bytes" in tests/timeline/timeline_store_test.cpp prints and bounds them. By
// INFO commandstats timeline_read takes some 27 µs of Redis' time for 5 items and 72 for 20 in a timeline of
// 100 or of 500. A push serves fifty readers a script: 5 to 7 µs of Redis' time a reader
// for one item.
//
// What counts as hidden is what the item's own hash says, a date ahead included. A deleted item leaves the
// timeline when a page first comes across it. With items.unknown = reject what was never put, or whose hash
// is gone, is not shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/timeline/ports.h"

namespace freshet::timeline {

class RedisWaterfallStore final : public WaterfallStore {
 public:
  // Both must outlive this. `bulk` carries push() only, and may be `redis`.
  RedisWaterfallStore(redis::Redis& redis, redis::Redis& bulk, const Settings& settings, redis::Keys keys);

  Task<Result<WaterfallPage>> read(const PageQuery& query) override;
  Task<Result<std::vector<bool>>> pushable(const std::vector<ItemId>& items) override;
  // A timeline that cannot be written is passed over; its error is the answer when all others were served.
  // Items that come again count as duplicates. Of more than waterfall.max_items different ones the last are
  // pushed, and the others count as nothing.
  Task<Result<Pushed>> push(const Push& push) override;
  Task<Result<std::optional<std::string>>> reply_to(const std::string& channel,
                                                    const EventId& event) override;
  Task<Result<void>> remember_reply(const std::string& channel, const EventId& event,
                                    const std::string& reply) override;
  // False when it was not there.
  Task<Result<bool>> remove(const std::string& channel, const ReaderId& reader, const ItemId& item) override;

 private:
  // What was looked at from a cursor on, up to the first item that has no place on the page.
  struct Looked {
    bool existed = false;          // the timeline was there
    std::int64_t cut_off = 0;      // the highest score that was
    std::int64_t newer = 0;        // than the cursor; kFirst: 0
    std::int64_t newer_or_at = 0;  // kUp: those and the cursor's own item
    std::int64_t items = 0;        // how many were looked at, without the one that has no place
    bool more = false;             // there is such a one
    std::vector<Placed> shown;     // nearest first
  };
  static WaterfallPage page_of(const PageQuery& query, Looked looked);
  static std::string_view word_of(Direction direction);  // as timeline_*.lua know it

  redis::Pipeline commands_of(const Push& push, const std::vector<std::string_view>& items, std::size_t from,
                              std::size_t end) const;

  redis::Redis& redis_;
  redis::Redis& bulk_;
  const WaterfallSettings settings_;
  const bool known_only_;
  const redis::Keys keys_;
};

}  // namespace freshet::timeline
