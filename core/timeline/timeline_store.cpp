#include "core/timeline/timeline_store.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/feed/interests.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "core/timeline/follow_store.h"

namespace freshet::timeline {
namespace {

using redis::Pipeline;

constexpr std::size_t kReadersATrip = 500;  // of a push; bulk commands must not hold up the others
constexpr std::size_t kStep = 100;          // of a page that begins with items that are not shown
constexpr std::int64_t kUsPerSecond = 1'000'000;
constexpr int kMostJoins = 3;  // in one page; then what is published waits for the next

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

RedisWaterfallStore::RedisWaterfallStore(redis::Redis& redis, redis::Redis& bulk, redis::WriteQueue& deferred,
                                         items::CardCache& cards, const Settings& settings, redis::Keys keys,
                                         milliseconds pulled_age)
    : redis_(redis),
      bulk_(bulk),
      deferred_(deferred),
      cards_(cards),
      settings_(settings.timeline),
      interactions_(settings.interactions),
      known_only_(settings.items_unknown == "reject"),
      keys_(std::move(keys)),
      pulled_age_(pulled_age) {}

// --- reading

struct RedisWaterfallStore::Scan {
  bool existed = false;
  std::int64_t cut_off = 0;
  std::int64_t newer = 0;        // kDown: than the last that was looked at; kUp: than the cursor
  std::int64_t newer_or_at = 0;  // kUp: those and the cursor's own item
  bool more = false;             // there is an item that would be shown but has no place
  std::vector<Placed> shown;     // nearest first
  std::vector<feed::Interest> interests;
  std::vector<items::SharedCard> liked;
};

WaterfallPage RedisWaterfallStore::page_of(const PageQuery& query, Scan scan) {
  WaterfallPage page;
  page.has_more = scan.more;
  page.items = std::move(scan.shown);
  page.interests = std::move(scan.interests);
  page.liked = std::move(scan.liked);
  if (query.direction == Direction::kDown) std::reverse(page.items.begin(), page.items.end());
  const bool empty = page.items.empty();
  const std::int64_t cursor = query.direction == Direction::kFirst ? 0 : query.score;
  page.drop = empty ? cursor : page.items.front().score;
  page.up = empty ? cursor : page.items.back().score;
  switch (query.direction) {
    case Direction::kFirst:
      break;
    case Direction::kDown:
      // What joined or left between the range and the count makes no difference to has_more.
      page.newer = scan.more ? std::max<std::int64_t>(1, scan.newer) : 0;
      page.trimmed = cursor < scan.cut_off;
      break;
    case Direction::kUp:
      page.newer = empty ? scan.newer : scan.newer_or_at;
      page.trimmed = empty && cursor > 0 && cursor <= scan.cut_off;
      break;
  }
  page.trimmed = page.trimmed || (cursor > 0 && !scan.existed);
  return page;
}

void RedisWaterfallStore::append_look(Pipeline& out, const PageQuery& query, const Begin& from,
                                      std::size_t count) const {
  const std::string key = keys_.timeline(query.channel, query.reader.view());
  if (query.direction == Direction::kDown)
    out.add("ZRANGEBYSCORE", key, from, "+inf", "WITHSCORES", "LIMIT", 0, count);
  else
    out.add("ZREVRANGEBYSCORE", key, from, "(0", "WITHSCORES", "LIMIT", 0, count);
  out.add("ZMSCORE", key, ":", "::", ":::");
  if (query.direction == Direction::kDown) out.add("ZCOUNT", key, from, "+inf");
  if (query.direction == Direction::kUp)
    out.add("ZCOUNT", key, std::max<std::int64_t>(query.score, 1), "+inf");
}

Result<RedisWaterfallStore::Look> RedisWaterfallStore::look_of(const PageQuery& query,
                                                               const redis::Replies& replies, std::size_t at,
                                                               std::size_t count) {
  for (std::size_t i = at; i < replies.size(); ++i) {
    if (replies[i].is_error()) return tl::unexpected(redis::classify(replies[i].error()));
  }
  const redis::Reply &pairs = replies[at], &marks = replies[at + 1];
  Look out;
  out.all = pairs.size() < 2 * count;
  out.items.reserve(count);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::int64_t score = redis::to_int(redis::string_at(pairs, i + 1));
    if (query.direction == Direction::kUp && score == query.score)
      out.own = true;
    else
      out.items.emplace_back(ItemId::trusted(std::string(redis::string_at(pairs, i))), score);
  }
  out.existed = !redis::string_at(marks, 0).empty();
  out.highest = -redis::to_int(redis::string_at(marks, 0));
  out.cut_off = -redis::to_int(redis::string_at(marks, 1));
  out.noted = -redis::to_int(redis::string_at(marks, 2));
  if (query.direction != Direction::kFirst) out.beyond = replies[at + 2].integer().value_or(0);
  return out;
}

Task<Result<RedisWaterfallStore::Look>> RedisWaterfallStore::look(const PageQuery& query, const Begin& from,
                                                                  std::size_t count, bool first) {
  Pipeline command;
  append_look(command, query, from, count);
  const bool interests = first && query.channel != settings_.follow_channel;
  if (interests)
    command.add("ZREVRANGE", keys_.interactions(query.reader.view()), 0, feed::kNamedInterests - 1);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  FRESHET_CO_TRY(out, look_of(query, *replies, 0, count));
  if (interests) out->interests = feed::interests_of(replies->back(), interactions_);
  co_return std::move(*out);
}

Task<Result<WaterfallPage>> RedisWaterfallStore::read(const PageQuery& query) {
  const bool follows = query.keeps && query.channel == settings_.follow_channel;
  const auto limit = static_cast<std::size_t>(query.limit);
  Begin from = "+inf";
  std::size_t count = limit + 1;  // the last of them tells that there is more
  if (query.direction == Direction::kDown) from = "(" + std::to_string(query.score);
  if (query.direction == Direction::kUp) {
    from = std::to_string(query.score);
    ++count;  // the cursor's own item
  }
  auto looking = follows ? look_joined(query, from, count) : look(query, from, count, true);
  FRESHET_CO_TRY(now, co_await looking);
  if (query.keeps) note(query, *now);
  Scan out;
  out.interests = std::move(now->interests);
  Pipeline gone;
  for (;; count = kStep) {
    std::vector<ItemId> ids;
    ids.reserve(now->items.size());
    for (const auto& [id, score] : now->items) ids.push_back(id);
    const std::size_t wanted = ids.size();
    if (out.liked.empty()) {
      for (const feed::Interest& each : out.interests) ids.push_back(each.item);
    }
    FRESHET_CO_TRY(cards, co_await cards_.get(ids));
    out.liked.insert(out.liked.end(), cards->begin() + static_cast<std::ptrdiff_t>(wanted), cards->end());
    ids.resize(wanted);
    const UnixSeconds second = wall_now();
    std::size_t looked = 0;
    for (; looked < ids.size(); ++looked) {
      const items::ItemCard& card = *(*cards)[looked];
      const bool dark = card.is_hidden_at(second) || (known_only_ && !card.known);
      out.more = !dark && out.shown.size() == limit;
      if (out.more) break;
      if (!dark) out.shown.push_back({ids[looked], now->items[looked].second, (*cards)[looked], {}});
      if (card.deleted)
        gone.add("ZREM", keys_.timeline(query.channel, query.reader.view()), ids[looked].view());
    }
    out.existed = now->existed;
    out.cut_off = now->cut_off;
    out.newer_or_at = now->beyond;
    out.newer = now->beyond - (query.direction == Direction::kDown ? static_cast<std::int64_t>(looked)
                                                                   : (now->own ? 1 : 0));
    if (out.more || now->all) break;
    from = "(" + std::to_string(now->items.back().second);
    FRESHET_CO_TRY(next, co_await look(query, from, kStep, false));
    next->own = now->own;
    *now = std::move(*next);
  }
  if (!gone.empty()) deferred_.post(std::move(gone));
  co_return page_of(query, std::move(out));
}

void RedisWaterfallStore::note(const PageQuery& query, const Look& first) {
  const std::int64_t now = unix_s(wall_now());
  const std::int64_t every = std::min(kNotedEvery, settings_.ttl / 8).count();
  const bool read = first.highest <= first.noted * kUsPerSecond;
  // A note of a time to come is of a clock that went back since.
  if (first.existed && read && std::abs(now - first.noted) < every) return;
  const std::string_view reader = query.reader.view();
  Pipeline out;
  if (first.existed) {
    const std::string key = keys_.timeline(query.channel, reader);
    out.add("ZADD", key, -now, ":::").add("EXPIRE", key, settings_.ttl.count());
  }
  const std::string active = keys_.active_readers(query.channel);
  out.add("ZADD", active, now, reader).add("ZREMRANGEBYRANK", active, 0, -redis::kMaxActiveReaders - 1);
  deferred_.post(std::move(out));
}

// --- what pulled authors published

Task<Result<std::shared_ptr<const RedisWaterfallStore::PulledAuthors>>> RedisWaterfallStore::pulled() {
  const auto now = std::chrono::steady_clock::now();
  if (pulled_ && now - pulled_->read < pulled_age_) co_return pulled_;
  Pipeline command;
  command.add("ZRANGE", keys_.pull_authors(), 0, -1, "WITHSCORES");
  FRESHET_CO_TRY(pairs, co_await redis::run_one(redis_, command));
  auto out = std::make_shared<PulledAuthors>();
  out->read = now;
  for (std::size_t i = 0; i + 1 < pairs->size(); i += 2)
    out->authors.emplace_back(redis::string_at(*pairs, i), redis::to_int(redis::string_at(*pairs, i + 1)));
  pulled_ = std::move(out);
  co_return pulled_;
}

Task<Result<RedisWaterfallStore::Look>> RedisWaterfallStore::look_joined(const PageQuery& query,
                                                                         const Begin& from,
                                                                         std::size_t count) {
  Pipeline command;      // begins with the join that the round before came to
  bool existed = false;  // before anything joined
  for (int round = 0;; ++round) {
    FRESHET_CO_TRY(pulled_now, co_await pulled());
    const auto& authors = (*pulled_now)->authors;
    if (!authors.empty()) {
      command.command(2 + authors.size()).arg("ZMSCORE").arg(keys_.followed_authors(query.reader.view()));
      for (const auto& [author, upto] : authors) command.arg(author);
    }
    const std::size_t at = command.size();
    append_look(command, query, from, count);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
    Join join{
        keys_.timeline(query.channel, query.reader.view()), keys_.followed_authors(query.reader.view()), {}, {}};
    for (std::size_t i = 0; i < authors.size(); ++i) {
      const std::string_view mark = redis::string_at((*replies)[at - 1], i);
      if (!mark.empty() && redis::to_int(mark) < authors[i].second)
        join.authors.push_back({authors[i].first, std::string(mark), authors[i].second});
    }
    FRESHET_CO_TRY(looked, look_of(query, *replies, at, count));
    if (round == 0) existed = looked->existed;
    looked->existed = existed;
    if (join.authors.empty() || round == kMostJoins) co_return std::move(*looked);
    FRESHET_CO_TRY(read, co_await read_outboxes(join));
    command.clear();
    append_join(command, settings_, join);
    command.barrier();  // or it is looked at as it was before
  }
}

// The newest of what they published beyond their marks, which will be where this was read to.
Task<Result<void>> RedisWaterfallStore::read_outboxes(Join& join) {
  Pipeline command;
  for (const Join::Author& each : join.authors)
    command.add("ZREVRANGEBYSCORE", keys_.pull_outbox(each.author), "+inf", "(" + each.mark, "WITHSCORES",
                "LIMIT", 0, settings_.max_items);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  std::vector<std::pair<std::int64_t, std::string_view>> found;
  for (std::size_t i = 0; i < join.authors.size(); ++i) {
    const redis::Reply& pairs = (*replies)[i];
    for (std::size_t j = 0; j + 1 < pairs.size(); j += 2) {
      found.emplace_back(redis::to_int(redis::string_at(pairs, j + 1)), redis::string_at(pairs, j));
      join.authors[i].upto = std::max(join.authors[i].upto, found.back().first);
    }
  }
  std::sort(found.begin(), found.end());
  const auto most = static_cast<std::size_t>(settings_.max_items);
  for (std::size_t i = found.size() - std::min(found.size(), most); i < found.size(); ++i)
    join.items.emplace_back(found[i].second);
  co_return Result<void>();
}

// --- writing

Task<Result<std::vector<bool>>> RedisWaterfallStore::pushable(const std::vector<ItemId>& items) {
  std::vector<bool> out;
  if (items.empty()) co_return out;
  Pipeline command;
  for (const ItemId& each : items) command.add("HMGET", keys_.item(each.view()), "published_at", "hidden");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  out.reserve(items.size());
  for (const redis::Reply& item : *replies) {
    const bool known = !known_only_ || !redis::string_at(item, 0).empty();
    out.push_back(known && redis::string_at(item, 1) != "1");
  }
  co_return out;
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
    std::vector<std::string> timelines;
    for (std::size_t i = from; i < end; ++i)
      timelines.push_back(keys_.timeline(push.channel, push.readers[i].view()));
    Pipeline commands;
    append_timeline_pushes(commands, keys_, settings_, timelines, items);
    FRESHET_CO_TRY(replies, co_await bulk_.run(commands));
    out.duplicates += static_cast<std::int64_t>(end - from) * each;
    for (const redis::Reply& reply : *replies) {
      if (reply.is_error()) co_return tl::unexpected(redis::classify(reply.error()));
      const std::int64_t pushed = reply[0].integer().value_or(0), lost = reply[1].integer().value_or(0);
      out.pushed += pushed;
      out.duplicates -= pushed + lost * each;
      if (lost > 0) failed = redis::classify(redis::string_at(reply, 2));
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
