// Pages where keys carry hash tags: every script touches the keys of one slot.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "core/items/item_store.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "core/timeline/timeline_store.h"

namespace freshet::timeline {

using redis::Pipeline;

namespace {

// More than the page are looked at, so that a few hidden items cost no further round trips.
constexpr std::size_t kSpare = 5;
constexpr std::size_t kMostAtOnce = 100;
constexpr std::size_t kHeadOfScan = 5;  // of the reply of timeline_scan.lua, before the items

}  // namespace

Task<Result<RedisWaterfallStore::Behind>> RedisWaterfallStore::behind(const ReaderId& reader) {
  Behind out;
  Pipeline command;
  command.add("ZRANGE", keys_.authors_of(reader.view()), 0, -1, "WITHSCORES");
  FRESHET_CO_TRY(authors, co_await redis::run_one(redis_, command));
  if (authors->size() == 0) co_return out;
  command.clear();
  command.command(2 + authors->size() / 2).arg("ZMSCORE").arg(keys_.pulled());
  for (std::size_t i = 0; i < authors->size(); i += 2) command.arg(redis::text_at(*authors, i));
  FRESHET_CO_TRY(last, co_await redis::run_one(redis_, command));
  for (std::size_t i = 0; i < last->size(); ++i) {
    Behind::Author author{std::string(redis::text_at(*authors, 2 * i)),
                          redis::whole(redis::text_at(*authors, 2 * i + 1)),
                          redis::whole(redis::text_at(*last, i))};
    if (author.mark < author.last) out.authors.push_back(std::move(author));
  }
  if (out.authors.empty()) co_return out;
  FRESHET_CO_TRY(gathered, co_await gather(out));
  co_return out;
}

Task<Result<void>> RedisWaterfallStore::gather(Behind& behind) {
  const auto most = static_cast<std::size_t>(settings_.max_items);
  Pipeline command;
  for (const Behind::Author& each : behind.authors)
    command.add("ZREVRANGEBYSCORE", keys_.pull_outbox(each.id), "+inf", "(" + std::to_string(each.mark),
                "WITHSCORES", "LIMIT", 0, most);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (std::size_t i = 0; i < replies->size(); ++i) {
    const redis::Reply& found = (*replies)[i];
    if (found.is_error()) co_return tl::unexpected(redis::classify(found.error()));
    for (std::size_t j = 0; j + 1 < found.size(); j += 2) {
      const std::int64_t score = redis::whole(redis::text_at(found, j + 1));
      behind.items.push_back({score, std::string(redis::text_at(found, j)), i});
      // follow:pulled lies in another slot than the outbox and may be told later.
      behind.authors[i].last = std::max(behind.authors[i].last, score);
    }
  }
  auto& items = behind.items;
  std::sort(items.begin(), items.end(),
            [](const auto& a, const auto& b) { return std::tie(a.score, a.id) < std::tie(b.score, b.id); });
  if (items.size() > most) items.erase(items.begin(), items.end() - settings_.max_items);
  co_return Result<void>();
}

void RedisWaterfallStore::append_join(Pipeline& out, const PageQuery& query, const Behind& behind) const {
  out.script(scripts::kTimelineJoin, 2, 3 + 3 * behind.authors.size() + 2 * behind.items.size())
      .arg(keys_.timeline(query.channel, query.reader.view()))
      .arg(keys_.authors_of(query.reader.view()))
      .arg(settings_.ttl.count())
      .arg(settings_.max_items)
      .arg(behind.authors.size());
  for (const Behind::Author& each : behind.authors) out.arg(each.id).arg(each.mark).arg(each.last);
  for (const Behind::Item& each : behind.items) out.arg(each.id).arg(each.author + 1);
}

Task<Result<RedisWaterfallStore::Nearby>> RedisWaterfallStore::scan(const PageQuery& query, std::size_t count,
                                                                    const Behind& behind) {
  Pipeline command;
  if (!behind.authors.empty()) append_join(command, query, behind);
  command.script(scripts::kTimelineScan, 1, 4).arg(keys_.timeline(query.channel, query.reader.view()));
  command.arg(word_of(query.direction)).arg(query.score).arg(count).arg(settings_.ttl.count());
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (const redis::Reply& each : *replies) {
    if (!each.is_error()) continue;
    co_return tl::unexpected(redis::classify(each.error()));
  }
  const redis::Reply& found = replies->back();
  if (found.size() < kHeadOfScan)
    co_return fail(ErrorCode::kInternal, "redis_type", {}, "unexpected reply of timeline_scan");
  Nearby out;
  out.existed = found[0].integer().value_or(0) == 1;
  if (!behind.authors.empty()) out.existed = replies->front().integer().value_or(0) == 1;
  out.cut_off = redis::whole(redis::text_at(found, 1));
  out.newer = found[2].integer().value_or(0);
  out.newer_or_at = found[3].integer().value_or(0);
  out.now = redis::whole(redis::text_at(found, 4));
  for (std::size_t i = kHeadOfScan; i + 1 < found.size(); i += 2)
    out.items.push_back({ItemId::trusted(std::string(redis::text_at(found, i))),
                         redis::whole(redis::text_at(found, i + 1)),
                         {}});
  co_return out;
}

Task<Result<void>> RedisWaterfallStore::look_at(const PageQuery& query, Nearby nearby, Looked& looked) {
  const std::string active = keys_.active(query.channel);
  Pipeline command;
  if (query.keeps)
    command.add("ZADD", active, nearby.now, query.reader.view());
  else
    command.add("ZADD", active, "XX", nearby.now, query.reader.view());
  command.add("ZREMRANGEBYRANK", active, 0, -redis::kMostActive - 1);
  for (const Placed& each : nearby.items) {
    items::append_card(command, keys_, each.item);
    command.add("HGET", keys_.item(each.item.view()), "deleted");
  }
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (const redis::Reply& each : *replies) {
    if (each.is_error()) co_return tl::unexpected(redis::classify(each.error()));
  }
  std::vector<ItemId> deleted;
  for (std::size_t i = 0; i < nearby.items.size(); ++i) {
    Placed& each = nearby.items[i];
    each.card = items::card_of((*replies)[2 + 2 * i]);
    const bool shown = !each.card.dark(UnixSeconds{seconds{nearby.now}}) && (each.card.known || !known_only_);
    if (shown && looked.shown.size() == static_cast<std::size_t>(query.limit)) {
      looked.more = true;
      break;
    }
    ++looked.items;
    if ((*replies)[3 + 2 * i].string().value_or("") == "1") deleted.push_back(each.item);
    if (shown) looked.shown.push_back(std::move(each));
  }
  const auto dropped = co_await drop(query, deleted);
  co_return dropped;
}

Task<Result<void>> RedisWaterfallStore::drop(const PageQuery& query, const std::vector<ItemId>& items) {
  if (items.empty()) co_return Result<void>();
  Pipeline command;
  command.command(2 + items.size()).arg("ZREM").arg(keys_.timeline(query.channel, query.reader.view()));
  for (const ItemId& each : items) command.arg(each.view());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  co_return Result<void>();
}

Task<Result<WaterfallPage>> RedisWaterfallStore::read_with_tags(const PageQuery& query) {
  Behind lacking;
  if (query.keeps && query.channel == settings_.follow_channel) {
    FRESHET_CO_TRY(found, co_await behind(query.reader));
    lacking = std::move(*found);
  }
  Looked looked;
  PageQuery from = query;
  std::size_t count = static_cast<std::size_t>(query.limit) + 1 + kSpare;
  for (bool first = true, all = false; !all && !looked.more; first = false) {
    FRESHET_CO_TRY(nearby, co_await scan(from, count, lacking));
    if (first) {
      looked.existed = nearby->existed;
      looked.newer_or_at = nearby->newer_or_at;
    }
    if (first || query.direction == Direction::kDown) looked.newer = looked.items + nearby->newer;
    looked.cut_off = nearby->cut_off;
    all = nearby->items.size() < count;
    if (!all) from.score = nearby->items.back().score;
    FRESHET_CO_TRY(seen, co_await look_at(query, std::move(*nearby), looked));
    if (query.direction == Direction::kFirst) from.direction = Direction::kUp;
    count = kMostAtOnce;
    lacking = {};
  }
  co_return page_of(query, std::move(looked));
}

}  // namespace freshet::timeline
