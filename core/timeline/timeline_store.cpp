#include "core/timeline/timeline_store.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "core/feed/interests.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "core/timeline/follow_store.h"

namespace freshet::timeline {
namespace {

using redis::Pipeline;

// Per round trip of a push, so that bulk commands do not hold up other requests.
constexpr std::size_t kReadersPerRoundTrip = 500;
// Items per further read if a page starts with items that are not shown.
constexpr std::size_t kScanStep = 100;
constexpr std::int64_t kUsPerSecond = 1'000'000;
constexpr std::size_t kMaxPendingActivity = 500;  // readers
constexpr int kMaxJoinRounds = 3;  // per page; items published after that appear on the next page

// Distinct ids in order of first occurrence.
std::vector<std::string_view> distinct(const std::vector<ItemId>& items) {
  std::vector<std::string_view> out;
  std::unordered_set<std::string_view> seen;
  for (const ItemId& each : items) {
    if (seen.insert(each.view()).second) out.push_back(each.view());
  }
  return out;
}

}  // namespace

RedisTimelineStore::RedisTimelineStore(redis::Redis& redis, redis::Redis& bulk,
                                       redis::WriteQueue& write_queue, items::CardCache& cards,
                                       const Settings& settings, redis::Keys keys, redis::RunAfter after,
                                       milliseconds pulled_list_max_age)
    : redis_(redis),
      bulk_(bulk),
      write_queue_(write_queue),
      cards_(cards),
      timeline_settings_(settings.timeline),
      interaction_settings_(settings.interactions),
      feedback_settings_(settings.feedback),
      known_only_(settings.items_unknown == "reject"),
      keys_(std::move(keys)),
      pulled_list_max_age_(pulled_list_max_age),
      writes_activity_immediately_(!after),
      activity_timer_(std::move(after), kActivityFlushInterval, [this] { flush_activity(); }) {}

// --- reading

struct RedisTimelineStore::PageScan {
  bool existed = false;
  std::int64_t cut_off_score = 0;
  std::int64_t newer_count = 0;           // kNewer: than the last item examined; kOlder: than the cursor
  std::int64_t newer_or_equal_count = 0;  // kOlder: counts the cursor's own item as well
  bool has_more = false;                  // another item can be shown but exceeds the limit
  std::vector<TimelineEntry> entries;     // nearest first
  std::vector<feed::Interest> interests;
  std::vector<items::SharedCard> interest_cards;
};

TimelinePage RedisTimelineStore::build_page(const PageQuery& query, PageScan scan) {
  TimelinePage page;
  page.has_more = scan.has_more;
  page.items = std::move(scan.entries);
  page.interests = std::move(scan.interests);
  page.interest_cards = std::move(scan.interest_cards);
  if (query.direction == Direction::kNewer) std::reverse(page.items.begin(), page.items.end());
  const bool empty = page.items.empty();
  const std::int64_t cursor = query.direction == Direction::kFirst ? 0 : query.cursor;
  page.newest_score = empty ? cursor : page.items.front().score;
  page.oldest_score = empty ? cursor : page.items.back().score;
  switch (query.direction) {
    case Direction::kFirst:
      break;
    case Direction::kNewer:
      // Items that joined or left between the two commands do not affect has_more.
      page.newer_count = scan.has_more ? std::max<std::int64_t>(1, scan.newer_count) : 0;
      page.trimmed = cursor < scan.cut_off_score;
      break;
    case Direction::kOlder:
      page.newer_count = empty ? scan.newer_count : scan.newer_or_equal_count;
      page.trimmed = empty && cursor > 0 && cursor <= scan.cut_off_score;
      break;
  }
  page.trimmed = page.trimmed || (cursor > 0 && !scan.existed);
  return page;
}

void RedisTimelineStore::append_range_read(Pipeline& out, const PageQuery& query, const RangeStart& from,
                                           std::size_t count) const {
  const std::string key = keys_.timeline(query.channel, query.reader.view());
  if (query.direction == Direction::kNewer)
    out.add("ZRANGEBYSCORE", key, from, "+inf", "WITHSCORES", "LIMIT", 0, count);
  else
    out.add("ZREVRANGEBYSCORE", key, from, "(0", "WITHSCORES", "LIMIT", 0, count);
  out.add("ZMSCORE", key, redis::kHighestMark, redis::kTrimmedMark, redis::kActivityMark);
  if (query.direction == Direction::kNewer) out.add("ZCOUNT", key, from, "+inf");
  if (query.direction == Direction::kOlder)
    out.add("ZCOUNT", key, std::max<std::int64_t>(query.cursor, 1), "+inf");
}

Result<RedisTimelineStore::RangeRead> RedisTimelineStore::parse_range_read(const PageQuery& query,
                                                                           const redis::Replies& replies,
                                                                           std::size_t first_reply,
                                                                           std::size_t count) {
  for (std::size_t i = first_reply; i < replies.size(); ++i) {
    if (replies[i].is_error()) return tl::unexpected(redis::classify(replies[i].error()));
  }
  const redis::Reply &pairs = replies[first_reply], &marks = replies[first_reply + 1];
  RangeRead out;
  out.complete = pairs.size() < 2 * count;
  out.items.reserve(count);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::int64_t score = redis::to_int(redis::string_at(pairs, i + 1));
    if (query.direction == Direction::kOlder && score == query.cursor)
      out.has_cursor_item = true;
    else
      out.items.emplace_back(ItemId::trusted(std::string(redis::string_at(pairs, i))), score);
  }
  out.existed = !redis::string_at(marks, 0).empty();
  out.highest_score = -redis::to_int(redis::string_at(marks, 0));
  out.cut_off_score = -redis::to_int(redis::string_at(marks, 1));
  out.activity_at = -redis::to_int(redis::string_at(marks, 2));
  if (query.direction != Direction::kFirst) out.beyond_count = replies[first_reply + 2].integer().value_or(0);
  return out;
}

void RedisTimelineStore::append_dismissals_read(Pipeline& out, const ReaderId& reader) const {
  redis::append_newest_read(out, keys_.not_interested(reader.view()), wall_now() - feedback_settings_.ttl,
                            feedback_settings_.max_items);
}

std::unordered_set<ItemId> RedisTimelineStore::parse_dismissals(const redis::Reply& reply) {
  std::unordered_set<ItemId> out;
  for (std::size_t i = 0; i < reply.size(); ++i)
    out.insert(ItemId::trusted(std::string(redis::string_at(reply, i))));
  return out;
}

Task<Result<RedisTimelineStore::RangeRead>> RedisTimelineStore::read_range(const PageQuery& query,
                                                                           const RangeStart& from,
                                                                           std::size_t count, bool first) {
  Pipeline command;
  append_range_read(command, query, from, count);
  const bool interests = first && query.channel != timeline_settings_.follow_channel;
  if (interests)
    command.add("ZREVRANGE", keys_.interactions(query.reader.view()), 0, feed::kMaxNamedInterests - 1);
  if (first) append_dismissals_read(command, query.reader);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  FRESHET_CO_TRY(out, parse_range_read(query, *replies, 0, count));
  if (interests)
    out->interests = feed::parse_interests((*replies)[replies->size() - 2], interaction_settings_);
  if (first) out->dismissed_items = parse_dismissals(replies->back());
  co_return std::move(*out);
}

Task<Result<TimelinePage>> RedisTimelineStore::read(const PageQuery& query) {
  const bool follows = query.allow_writes && query.channel == timeline_settings_.follow_channel;
  const auto limit = static_cast<std::size_t>(query.limit);
  RangeStart from = "+inf";
  std::size_t count = limit + 1;  // one more than the limit, to learn whether there are more
  if (query.direction == Direction::kNewer) from = "(" + std::to_string(query.cursor);
  if (query.direction == Direction::kOlder) {
    from = std::to_string(query.cursor);
    ++count;  // the cursor's own item
  }
  auto range_read = follows ? read_with_pulled(query, from, count) : read_range(query, from, count, true);
  FRESHET_CO_TRY(range, co_await range_read);
  if (query.allow_writes && !is_anonymous_reader(query.reader)) record_activity(query, *range);
  PageScan scan;
  scan.interests = std::move(range->interests);
  const std::unordered_set<ItemId> dismissed = std::move(range->dismissed_items);
  Pipeline deleted;
  for (;; count = kScanStep) {
    std::vector<ItemId> ids;
    ids.reserve(range->items.size());
    for (const auto& [id, score] : range->items) ids.push_back(id);
    const std::size_t wanted = ids.size();
    if (scan.interest_cards.empty()) {
      for (const feed::Interest& each : scan.interests) ids.push_back(each.item);
    }
    FRESHET_CO_TRY(cards, co_await cards_.get(ids));
    scan.interest_cards.insert(scan.interest_cards.end(),
                               cards->begin() + static_cast<std::ptrdiff_t>(wanted), cards->end());
    ids.resize(wanted);
    const UnixSeconds now = wall_now();
    std::size_t examined = 0;
    for (; examined < ids.size(); ++examined) {
      const items::ItemCard& card = *(*cards)[examined];
      const bool is_hidden =
          card.is_hidden_at(now) || (known_only_ && !card.known) || dismissed.contains(ids[examined]);
      scan.has_more = !is_hidden && scan.entries.size() == limit;
      if (scan.has_more) break;
      if (!is_hidden)
        scan.entries.push_back({ids[examined], range->items[examined].second, (*cards)[examined], {}});
      if (card.deleted)
        deleted.add("ZREM", keys_.timeline(query.channel, query.reader.view()), ids[examined].view());
    }
    scan.existed = range->existed;
    scan.cut_off_score = range->cut_off_score;
    scan.newer_or_equal_count = range->beyond_count;
    scan.newer_count =
        range->beyond_count - (query.direction == Direction::kNewer ? static_cast<std::int64_t>(examined)
                                                                    : (range->has_cursor_item ? 1 : 0));
    if (scan.has_more || range->complete) break;
    from = "(" + std::to_string(range->items.back().second);
    FRESHET_CO_TRY(next, co_await read_range(query, from, kScanStep, false));
    next->has_cursor_item = range->has_cursor_item;
    *range = std::move(*next);
  }
  if (!deleted.empty()) write_queue_.post(std::move(deleted));
  co_return build_page(query, std::move(scan));
}

void RedisTimelineStore::record_activity(const PageQuery& query, const RangeRead& first) {
  const std::int64_t now = unix_s(wall_now());
  const std::int64_t interval = std::min(kActivityInterval, timeline_settings_.ttl / 8).count();
  const bool is_up_to_date = first.highest_score <= first.activity_at * kUsPerSecond;
  // A time in the future comes from before the clock was set back.
  if (first.existed && is_up_to_date && std::abs(now - first.activity_at) < interval) return;
  if (first.existed) {
    const std::string key = keys_.timeline(query.channel, query.reader.view());
    Pipeline out;
    out.add("ZADD", key, -now, redis::kActivityMark).add("EXPIRE", key, timeline_settings_.ttl.count());
    write_queue_.post(std::move(out));
  }
  activity_[query.channel].push_back(query.reader.str());
  if (++pending_activity_ == kMaxPendingActivity || writes_activity_immediately_) return flush_activity();
  activity_timer_.start();
}

void RedisTimelineStore::flush_activity() {
  if (activity_.empty()) return;
  Pipeline out;
  for (const auto& [channel, readers] : activity_) {
    const std::string key = keys_.active_readers(channel);
    out.command(2 + 2 * readers.size()).arg("ZADD").arg(key);
    for (const std::string& reader : readers) out.arg(unix_s(wall_now())).arg(reader);
    out.add("ZREMRANGEBYRANK", key, 0, -redis::kMaxActiveReaders - 1);
  }
  activity_.clear();
  pending_activity_ = 0;
  write_queue_.post(std::move(out));
}

// --- items of pulled authors

Task<Result<std::shared_ptr<const RedisTimelineStore::PulledAuthors>>> RedisTimelineStore::pull_authors() {
  const auto now = std::chrono::steady_clock::now();
  if (pulled_authors_ && now - pulled_authors_->read_at < pulled_list_max_age_) co_return pulled_authors_;
  Pipeline command;
  command.add("ZRANGE", keys_.pull_authors(), 0, -1, "WITHSCORES");
  FRESHET_CO_TRY(pairs, co_await redis::run_one(redis_, command));
  auto out = std::make_shared<PulledAuthors>();
  out->read_at = now;
  for (std::size_t i = 0; i + 1 < pairs->size(); i += 2)
    out->authors.emplace_back(redis::string_at(*pairs, i), redis::to_int(redis::string_at(*pairs, i + 1)));
  pulled_authors_ = std::move(out);
  co_return pulled_authors_;
}

Task<Result<RedisTimelineStore::RangeRead>> RedisTimelineStore::read_with_pulled(const PageQuery& query,
                                                                                 const RangeStart& from,
                                                                                 std::size_t count) {
  Pipeline command;      // starts with the join prepared in the previous round
  bool existed = false;  // before anything joined
  std::unordered_set<ItemId> dismissed;
  for (int round = 0;; ++round) {
    FRESHET_CO_TRY(pulled, co_await pull_authors());
    const auto& authors = (*pulled)->authors;
    if (!authors.empty()) {
      command.command(2 + authors.size()).arg("ZMSCORE").arg(keys_.followed_authors(query.reader.view()));
      for (const auto& [author, upto] : authors) command.arg(author);
    }
    const std::size_t range_index = command.size();
    append_range_read(command, query, from, count);
    if (round == 0) append_dismissals_read(command, query.reader);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
    TimelineJoin join{keys_.timeline(query.channel, query.reader.view()),
                      keys_.followed_authors(query.reader.view()),
                      {},
                      {}};
    for (std::size_t i = 0; i < authors.size(); ++i) {
      const std::string_view mark = redis::string_at((*replies)[range_index - 1], i);
      if (!mark.empty() && redis::to_int(mark) < authors[i].second)
        join.authors.push_back({authors[i].first, std::string(mark), authors[i].second});
    }
    FRESHET_CO_TRY(range, parse_range_read(query, *replies, range_index, count));
    if (round == 0) {
      existed = range->existed;
      dismissed = parse_dismissals(replies->back());
    }
    range->existed = existed;
    if (join.authors.empty() || round == kMaxJoinRounds) {
      range->dismissed_items = std::move(dismissed);
      co_return std::move(*range);
    }
    FRESHET_CO_TRY(outboxes_read, co_await read_outboxes(join));
    command.clear();
    append_join(command, timeline_settings_, join);
    command.barrier();  // the range must be read after the join
  }
}

// Reads the newest items that the authors published beyond their marks, and sets the new marks.
Task<Result<void>> RedisTimelineStore::read_outboxes(TimelineJoin& join) {
  Pipeline command;
  for (const TimelineJoin::Author& each : join.authors)
    command.add("ZREVRANGEBYSCORE", keys_.pull_outbox(each.author), "+inf", "(" + each.mark, "WITHSCORES",
                "LIMIT", 0, timeline_settings_.max_items);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  std::vector<std::pair<std::int64_t, std::string_view>> found;
  for (std::size_t i = 0; i < join.authors.size(); ++i) {
    const redis::Reply& pairs = (*replies)[i];
    for (std::size_t j = 0; j + 1 < pairs.size(); j += 2) {
      found.emplace_back(redis::to_int(redis::string_at(pairs, j + 1)), redis::string_at(pairs, j));
      join.authors[i].new_mark = std::max(join.authors[i].new_mark, found.back().first);
    }
  }
  std::sort(found.begin(), found.end());
  const auto max_items = static_cast<std::size_t>(timeline_settings_.max_items);
  for (std::size_t i = found.size() - std::min(found.size(), max_items); i < found.size(); ++i)
    join.items.emplace_back(found[i].second);
  co_return Result<void>();
}

// --- writing

Task<Result<std::vector<bool>>> RedisTimelineStore::check_pushable(const std::vector<ItemId>& items) {
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

Task<Result<PushResult>> RedisTimelineStore::push(const PushRequest& push) {
  auto items = distinct(push.items);
  const auto repeated = static_cast<std::int64_t>(push.items.size() - items.size());
  if (items.size() > static_cast<std::size_t>(timeline_settings_.max_items))
    items.erase(items.begin(), items.end() - timeline_settings_.max_items);
  PushResult out;
  if (items.empty()) co_return out;
  const auto items_per_reader = static_cast<std::int64_t>(items.size()) + repeated;
  std::optional<Error> failed;
  for (std::size_t from = 0; from < push.readers.size(); from += kReadersPerRoundTrip) {
    const std::size_t end = std::min(from + kReadersPerRoundTrip, push.readers.size());
    std::vector<std::string> timelines;
    for (std::size_t i = from; i < end; ++i)
      timelines.push_back(keys_.timeline(push.channel, push.readers[i].view()));
    Pipeline commands;
    append_timeline_pushes(commands, keys_, timeline_settings_, timelines, items);
    FRESHET_CO_TRY(replies, co_await bulk_.run(commands));
    out.duplicates += static_cast<std::int64_t>(end - from) * items_per_reader;
    for (const redis::Reply& reply : *replies) {
      if (reply.is_error()) co_return tl::unexpected(redis::classify(reply.error()));
      const std::int64_t pushed = reply[0].integer().value_or(0), unwritten = reply[1].integer().value_or(0);
      out.pushed += pushed;
      out.duplicates -= pushed + unwritten * items_per_reader;
      if (unwritten > 0) failed = redis::classify(redis::string_at(reply, 2));
    }
  }
  if (failed) co_return tl::unexpected(*failed);
  co_return out;
}

Task<Result<std::optional<std::string>>> RedisTimelineStore::load_reply(const std::string& channel,
                                                                        const EventId& event) {
  Pipeline command;
  command.add("GET", keys_.push_event(channel, event.view()));
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  std::optional<std::string> out;
  if (!reply->is_nil()) out = std::string(reply->string().value_or(""));
  co_return out;
}

Task<Result<void>> RedisTimelineStore::store_reply(const std::string& channel, const EventId& event,
                                                   const std::string& reply_text) {
  Pipeline command;
  command.add("SET", keys_.push_event(channel, event.view()), reply_text, "EX", redis::kEventTtl.count());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  co_return Result<void>();
}

Task<Result<bool>> RedisTimelineStore::remove(const std::string& channel, const ReaderId& reader,
                                              const ItemId& item) {
  Pipeline command;
  command.add("ZREM", keys_.timeline(channel, reader.view()), item.view());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  FRESHET_CO_TRY(removed, reply->integer());
  co_return *removed == 1;
}

}  // namespace freshet::timeline
