#include "core/timeline/timeline_store.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/items/item_store.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::timeline {
namespace {

using redis::Pipeline;

constexpr std::size_t kReadersATrip = 500;   // of a push; bulk commands must not hold up the others
constexpr std::size_t kReadersAScript = 50;  // some 300 µs of Redis for one item; beyond it little is saved
constexpr std::size_t kHeadOfRead = 6;       // of the reply of timeline_read.lua, before the items

// Each once, where it came first.
std::vector<std::string_view> distinct(const std::vector<ItemId>& items) {
  std::vector<std::string_view> out;
  std::unordered_set<std::string_view> known;
  for (const ItemId& each : items) {
    if (known.insert(each.view()).second) out.push_back(each.view());
  }
  return out;
}

}  // namespace

RedisWaterfallStore::RedisWaterfallStore(redis::Redis& redis, redis::Redis& bulk, const Settings& settings,
                                         redis::Keys keys)
    : redis_(redis),
      bulk_(bulk),
      settings_(settings.waterfall),
      known_only_(settings.items_unknown == "reject"),
      keys_(std::move(keys)) {}

// --- reading

std::string_view RedisWaterfallStore::word_of(Direction direction) {
  if (direction == Direction::kFirst) return "first";
  return direction == Direction::kDown ? "down" : "up";
}

WaterfallPage RedisWaterfallStore::page_of(const PageQuery& query, Looked looked) {
  WaterfallPage page;
  page.has_more = looked.more;
  page.items = std::move(looked.shown);
  if (query.direction == Direction::kDown) std::reverse(page.items.begin(), page.items.end());
  const bool empty = page.items.empty();
  const std::int64_t cursor = query.direction == Direction::kFirst ? 0 : query.score;
  page.drop = empty ? cursor : page.items.front().score;
  page.up = empty ? cursor : page.items.back().score;
  switch (query.direction) {
    case Direction::kFirst:
      break;
    case Direction::kDown:
      page.newer = looked.newer - looked.items;
      page.trimmed = cursor < looked.cut_off;
      break;
    case Direction::kUp:
      page.newer = empty ? looked.newer : looked.newer_or_at;
      page.trimmed = empty && cursor > 0 && cursor <= looked.cut_off;
      break;
  }
  page.trimmed = page.trimmed || (cursor > 0 && !looked.existed);
  return page;
}

Task<Result<WaterfallPage>> RedisWaterfallStore::read(const PageQuery& query) {
  const std::string_view reader = query.reader.view();
  const bool follows = query.keeps && query.channel == settings_.follow_channel;
  Pipeline command;
  command.script(scripts::kTimelineRead, (follows ? 4U : 2U), 10)
      .arg(keys_.timeline(query.channel, reader))
      .arg(keys_.active(query.channel));
  if (follows) command.arg(keys_.authors_of(reader)).arg(keys_.pulled());
  command.arg(word_of(query.direction))
      .arg(query.score)
      .arg(query.limit)
      .arg(settings_.ttl.count())
      .arg(settings_.max_items)
      .arg(query.keeps ? reader : std::string_view())
      .arg(redis::kMostActive)
      .arg(known_only_ ? 1 : 0)
      .arg(keys_.item({}))
      .arg(keys_.pull_outbox({}));
  FRESHET_CO_TRY(reply, co_await run_one(redis_, command));
  if (reply->size() < kHeadOfRead)
    co_return fail(ErrorCode::kInternal, "redis_type", {}, "unexpected reply of timeline_read");
  const auto number = [&](std::size_t at) {
    const redis::Reply one = (*reply)[at];
    return one.integer().value_or(0);
  };
  Looked looked;
  looked.existed = number(0) == 1;
  looked.cut_off = number(1);
  looked.newer = number(2);
  looked.newer_or_at = number(3);
  looked.items = number(4);
  looked.more = number(5) == 1;
  looked.shown.reserve(reply->size() - kHeadOfRead);
  for (std::size_t i = kHeadOfRead; i < reply->size(); ++i) {
    const redis::Reply one = (*reply)[i];
    looked.shown.push_back({ItemId::trusted(std::string(redis::text_at(one, 0))),
                            redis::whole(redis::text_at(one, 1)), items::card_of(one[2])});
  }
  co_return page_of(query, std::move(looked));
}

// --- writing

Task<Result<std::vector<bool>>> RedisWaterfallStore::pushable(const std::vector<ItemId>& items) {
  std::vector<bool> out;
  if (items.empty()) co_return out;
  Pipeline command;
  for (const ItemId& each : items) command.add("HMGET", keys_.item(each.view()), "published_at", "hidden");
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  out.reserve(items.size());
  for (const redis::Reply& item : *replies) {
    if (item.is_error()) co_return tl::unexpected(redis::classify(item.error()));
    const bool known = !known_only_ || !redis::text_at(item, 0).empty();
    out.push_back(known && redis::text_at(item, 1) != "1");
  }
  co_return out;
}

// To some of its readers.
Pipeline RedisWaterfallStore::commands_of(const Push& push, const std::vector<std::string_view>& items,
                                          std::size_t from, std::size_t end) const {
  Pipeline out;
  for (; from < end; from += kReadersAScript) {
    const std::size_t stop = std::min(from + kReadersAScript, end);
    out.script(scripts::kTimelinePush, stop - from, 2 + items.size());
    for (std::size_t i = from; i < stop; ++i) out.arg(keys_.timeline(push.channel, push.readers[i].view()));
    out.arg(settings_.ttl.count()).arg(settings_.max_items);
    for (const std::string_view item : items) out.arg(item);
  }
  return out;
}

Task<Result<Pushed>> RedisWaterfallStore::push(const Push& push) {
  auto items = distinct(push.items);
  const auto repeated = static_cast<std::int64_t>(push.items.size() - items.size());
  if (items.size() > static_cast<std::size_t>(settings_.max_items))
    items.erase(items.begin(), items.end() - settings_.max_items);
  Pushed out;
  if (items.empty()) co_return out;
  const auto each = static_cast<std::int64_t>(items.size()) + repeated;
  std::optional<Error> failed;
  for (std::size_t from = 0; from < push.readers.size(); from += kReadersATrip) {
    const std::size_t end = std::min(from + kReadersATrip, push.readers.size());
    const Pipeline commands = commands_of(push, items, from, end);
    FRESHET_CO_TRY(replies, co_await bulk_.run(commands));
    out.duplicates += static_cast<std::int64_t>(end - from) * each;
    for (const redis::Reply& reply : *replies) {
      if (reply.is_error()) co_return tl::unexpected(redis::classify(reply.error()));
      const std::int64_t pushed = reply[0].integer().value_or(0), lost = reply[1].integer().value_or(0);
      out.pushed += pushed;
      out.duplicates -= pushed + lost * each;
      if (lost > 0) failed = redis::classify(redis::text_at(reply, 2));
    }
  }
  if (failed) co_return tl::unexpected(*failed);
  co_return out;
}

Task<Result<std::optional<std::string>>> RedisWaterfallStore::reply_to(const std::string& channel,
                                                                       const EventId& event) {
  Pipeline command;
  command.add("GET", keys_.push_event(channel, event.view()));
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  std::optional<std::string> out;
  if (!reply->is_nil()) out = std::string(reply->string().value_or(""));
  co_return out;
}

Task<Result<void>> RedisWaterfallStore::remember_reply(const std::string& channel, const EventId& event,
                                                       const std::string& said) {
  Pipeline command;
  command.add("SET", keys_.push_event(channel, event.view()), said, "EX", redis::kEventTtl.count());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  co_return Result<void>();
}

Task<Result<bool>> RedisWaterfallStore::remove(const std::string& channel, const ReaderId& reader,
                                               const ItemId& item) {
  Pipeline command;
  command.add("ZREM", keys_.timeline(channel, reader.view()), item.view());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  FRESHET_CO_TRY(removed, reply->integer());
  co_return *removed == 1;
}

}  // namespace freshet::timeline
