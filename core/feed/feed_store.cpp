#include "core/feed/feed_store.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/redis_clock.h"
#include "core/feed/interests.h"
#include "core/items/item_store.h"
#include "core/readers/reader_store.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::feed {
namespace {

using redis::Pipeline;

// A page that is not acknowledged after this time was lost by the worker that delivered it; its
// impressions are recorded again.
constexpr std::int64_t kAckTimeoutMs = 5000;
// Acknowledged pages are excluded from refreshes for this long; after that the filter alone
// decides.
constexpr std::int64_t kAckRetentionMs = 60000;

std::string query_digest(const std::string& query) {
  if (query.empty()) return {};
  std::array<char, 16> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), XXH3_64bits(query.data(), query.size()), 16).ptr;
  return {text.data(), end};
}

// Each element is one id, or a line of ids separated by kIdSeparator.
std::vector<ItemId> ids_of(const redis::Reply& reply) {
  std::vector<ItemId> out;
  out.reserve(reply.size());
  for (std::size_t i = 0; i < reply.size(); ++i) {
    for (const std::string_view id : redis::split_words(redis::string_at(reply, i), kIdSeparator))
      out.push_back(ItemId::trusted(std::string(id)));
  }
  return out;
}

// Packs ids into lines of at least a page each. With one list element per item, pushing would
// dominate the cost of a refresh in Redis.
std::vector<std::string> buffer_lines(const std::vector<ItemId>& items, std::size_t page_size) {
  const std::size_t items_per_line = std::max(page_size, items.size() / kMaxBufferLines + 1);
  std::vector<std::string> out;
  out.reserve(items.size() / items_per_line + 1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i % items_per_line == 0)
      out.emplace_back();
    else
      out.back() += kIdSeparator;
    out.back() += items[i].view();
  }
  return out;
}

// A page in the format of feed_state.lua.
struct StoredPage {
  bool acknowledged = false;
  std::string_view idempotency_key;  // empty for pages older than the last four, which are not replayed
  std::int64_t time_ms = 0;          // when it was delivered; once acknowledged, when that happened
  Page page;
};

std::optional<StoredPage> parse_page(std::string_view text) {
  const auto fields = redis::split_words(text, kIdSeparator);
  if (fields.size() < 7 || fields[0].size() < 2) return std::nullopt;
  StoredPage out;
  out.acknowledged = fields[0][0] == '1';
  out.idempotency_key = fields[0].substr(2);
  out.page.delivery_seq = redis::parse_or_zero<std::int64_t>(fields[1]);
  out.time_ms = redis::parse_or_zero<std::int64_t>(fields[2]);
  out.page.generation = redis::parse_or_zero<std::int64_t>(fields[3]);
  out.page.sequence = redis::parse_or_zero<std::int64_t>(fields[4]);
  out.page.has_more_buffered = fields[5] == "1";
  out.page.exhausted = fields[6] == "1";
  for (std::size_t i = 7; i < fields.size(); ++i)
    out.page.items.push_back(
        ItemId::trusted(std::string(fields[i].substr(fields[i].starts_with(kIdMark) ? 1 : 0))));
  return out;
}

// Reply of TIME in milliseconds.
std::int64_t clock_ms(const redis::Reply& time) {
  return redis::to_int(redis::string_at(time, 0)) * 1000 + redis::to_int(redis::string_at(time, 1)) / 1000;
}

std::int64_t age_ms(const StoredPage& page, std::int64_t now_ms) { return now_ms - page.time_ms; }

// Adds the page to `out` if it has waited longer than kAckTimeoutMs for its acknowledgement.
void add_if_unacknowledged(StoredPage page, std::int64_t now_ms, UnixSeconds now,
                           std::vector<UnacknowledgedDelivery>& out) {
  const std::int64_t age = age_ms(page, now_ms);
  if (page.acknowledged || age <= kAckTimeoutMs) return;
  out.push_back({{page.page.delivery_seq, std::move(page.page.items)}, now - seconds{age / 1000}, false});
}

// Parses the reply of feed_next.lua and feed_swap.lua.
Result<PageResult> parse_page_result(const redis::Reply& reply, UnixSeconds now) {
  if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
  const std::string_view status = redis::string_at(reply, 0);
  PageResult result;
  if (status == "empty") return result;
  auto page = parse_page(redis::string_at(reply, 1));
  if (!page) return tl::unexpected(redis::malformed_reply("feed_next"));
  const std::int64_t now_ms = page->time_ms;
  result.status = PageResult::Status::kPage;
  result.page = std::move(page->page);
  result.page.acknowledged = page->acknowledged;
  result.page.replay = status == "replay";
  result.has_external_impressions = redis::string_at(reply, 2) == "1";
  for (std::size_t i = 0; i < reply[3].size(); ++i) {
    if (auto pending = parse_page(redis::string_at(reply[3], i)))
      add_if_unacknowledged(std::move(*pending), now_ms, now, result.unacknowledged);
  }
  return result;
}

// The impressions under several names of a reader.
class JoinedView final : public SeenView {
 public:
  explicit JoinedView(std::vector<std::shared_ptr<const SeenView>> views) : views_(std::move(views)) {}
  std::vector<bool> contains(const std::vector<ItemId>& items) const override {
    std::vector<bool> out(items.size());
    for (const auto& view : views_) {
      const std::vector<bool> seen = view->contains(items);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] || seen[i];
    }
    return out;
  }

 private:
  const std::vector<std::shared_ptr<const SeenView>> views_;
};

// Positions of the fields that load_state() reads from a feed's hash; 0 to 3 are pages.
enum StateField : std::uint8_t { kHead = 4, kExternalImpressions = 5, kLate = 6 };

void append_state_read(Pipeline& out, std::string_view key) {
  out.add("HMGET", key, "0", "1", "2", "3", "head", "noted", "late");
}

// All pages in the hash.
std::vector<StoredPage> parse_pages(const redis::Reply& state) {
  std::vector<StoredPage> out;
  for (std::size_t slot = 0; slot < kHead; ++slot) {
    if (auto page = parse_page(redis::string_at(state, slot))) out.push_back(std::move(*page));
  }
  std::string_view late = redis::string_at(state, kLate);
  while (!late.empty()) {
    const std::size_t end = std::min(late.find('\n'), late.size() - 1);
    if (auto page = parse_page(late.substr(0, end))) {
      page->idempotency_key = {};
      out.push_back(std::move(*page));
    }
    late.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

RedisFeedStore::RedisFeedStore(redis::Redis& redis, SeenFilter& filter, const Settings& settings,
                               redis::Keys keys, Clock clock, SeenEpochs::Pseudonym erasure_pseudonym)
    : redis_(redis),
      filter_(filter),
      reader_settings_(settings.readers),
      feed_settings_(settings.feed),
      interaction_settings_(settings.interactions),
      feedback_settings_(settings.feedback),
      keys_(std::move(keys)),
      epochs_(keys_, std::move(erasure_pseudonym)),
      clock_(std::move(clock)) {}

// --- reading

Task<Result<FeedState>> RedisFeedStore::load_state(const FeedRequest& request, bool peek) {
  const UnixSeconds now = clock_();
  FRESHET_CO_TRY(loaded, co_await filter_.load_day(redis_, now));
  const std::string_view reader = request.reader.view();
  // Read the pages before the filter: if a page is already acknowledged, the filter read after it
  // has its impressions.
  Pipeline command;
  append_state_read(command, keys_.feed_state(reader));
  command.add("TIME");
  command.add("ZREVRANGE", keys_.interactions(reader), 0, kMaxInteractions - 1);
  redis::append_newest_read(command, keys_.not_interested(reader), now - feedback_settings_.ttl,
                            feedback_settings_.max_items);
  const std::size_t hot_index = command.size();
  auto hot = hot_items_read(now);
  if (hot) hot->append(command);
  const std::size_t buffer_index = command.size();
  if (peek) command.add("LRANGE", keys_.feed_cache(reader), 0, -1);
  const std::size_t seen_index = command.size();
  const std::vector<ReaderId> filter_ids = epochs_.filter_ids(request.reader);
  epochs_.append_read(command, request.reader);
  for (const ReaderId& each : filter_ids) filter_.append_read(command, each, now);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (std::size_t i = 0; i < seen_index; ++i) {
    if ((*replies)[i].is_error()) co_return tl::unexpected(redis::classify((*replies)[i].error()));
  }
  if (hot) {
    const redis::Reply* at = &(*replies)[hot_index];
    hot->consume(at);
    FRESHET_CO_TRY(rest, co_await redis::read_remaining(redis_, std::span(&*hot, 1)));
    hot_items_.clear();
    for (const std::string& id : hot->members()) hot_items_.push_back(ItemId::trusted(id));
    hot_items_read_at_ = now;
  }
  const redis::Reply& state = replies->front();
  const std::int64_t now_ms = clock_ms((*replies)[1]);
  FeedState out;
  out.interests = parse_interests((*replies)[2], interaction_settings_);
  out.dismissed_items = ids_of((*replies)[3]);
  for (StoredPage& each : parse_pages(state)) {
    const bool is_same_request =
        !request.idempotency_key.empty() && each.idempotency_key == request.idempotency_key;
    if (is_same_request && age_ms(each, now_ms) <= milliseconds(feed_settings_.replay_window).count()) {
      out.is_replay = true;
      co_return out;
    }
    if (each.acknowledged && age_ms(each, now_ms) > kAckRetentionMs) continue;  // the filter alone decides
    out.delivered_items.insert(out.delivered_items.end(), each.page.items.begin(), each.page.items.end());
    add_if_unacknowledged(std::move(each), now_ms, now, out.unacknowledged);
  }
  const auto head = redis::split_words(redis::string_at(state, kHead));
  if (head.size() >= 3) {
    out.generation = redis::parse_or_zero<std::int64_t>(head[0]);
    out.delivery_seq = redis::parse_or_zero<std::int64_t>(head[2]);
  }
  out.external_impressions =
      redis::parse_or_zero<std::int64_t>(redis::string_at(state, kExternalImpressions));
  out.hot_items = hot_items_;
  if (peek) out.buffered_items = ids_of((*replies)[buffer_index]);
  FRESHET_CO_TRY(view, co_await resolve_seen_view(*replies, seen_index, request.reader, filter_ids, now));
  out.seen_view = std::move(*view);
  if (!out.seen_view) co_return out;
  for (UnacknowledgedDelivery& each : out.unacknowledged) {
    const auto known = out.seen_view->contains(each.delivery.items);
    each.is_recorded = std::find(known.begin(), known.end(), false) == known.end();
  }
  co_return out;
}

Task<Result<std::shared_ptr<const SeenView>>> RedisFeedStore::resolve_seen_view(
    const redis::Replies& replies, std::size_t first_reply, const ReaderId& reader,
    const std::vector<ReaderId>& filter_ids, UnixSeconds now) {
  Pipeline names_read;
  const std::size_t names = epochs_.append_read(names_read, reader);
  if (names > 0) {
    if (first_reply + names > replies.size()) co_return tl::unexpected(redis::malformed_reply("seen_epoch"));
    if (auto ok = epochs_.update(&replies[first_reply], reader); !ok) co_return tl::unexpected(ok.error());
  }
  const std::vector<ReaderId> current = epochs_.filter_ids(reader);
  if (current == filter_ids) co_return parse_seen_view(replies, first_reply + names, filter_ids, now);
  auto reread = co_await read_seen_view(current, now);
  co_return reread;
}

Task<Result<std::shared_ptr<const SeenView>>> RedisFeedStore::read_seen_view(
    const std::vector<ReaderId>& filter_ids, UnixSeconds now) {
  Pipeline read;
  for (const ReaderId& each : filter_ids) filter_.append_read(read, each, now);
  if (read.empty()) co_return std::shared_ptr<const SeenView>();
  FRESHET_CO_TRY(replies, co_await redis_.run(read));
  co_return parse_seen_view(*replies, 0, filter_ids, now);
}

Result<std::shared_ptr<const SeenView>> RedisFeedStore::parse_seen_view(
    const redis::Replies& replies, std::size_t first_reply, const std::vector<ReaderId>& filter_ids,
    UnixSeconds now) {
  std::vector<std::shared_ptr<const SeenView>> views;
  for (const ReaderId& each : filter_ids) {
    FRESHET_TRY(view, filter_.parse_view(replies, first_reply, each, now));
    if (*view == nullptr) return *view;
    views.push_back(std::move(*view));
    Pipeline read;
    first_reply += filter_.append_read(read, each, now);
  }
  if (views.size() == 1) return std::move(views.front());
  return std::make_shared<const JoinedView>(std::move(views));
}

Task<Result<std::vector<bool>>> RedisFeedStore::check_seen(const ReaderId& reader,
                                                           const std::shared_ptr<const SeenView>& view,
                                                           const std::vector<ItemId>& items) {
  if (view) co_return view->contains(items);
  std::vector<bool> out(items.size());
  for (const ReaderId& each : epochs_.filter_ids(reader)) {
    FRESHET_CO_TRY(seen, co_await filter_.check(redis_, each, view, items, clock_()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] || (*seen)[i];
  }
  co_return out;
}

Task<Result<SeenStatus>> RedisFeedStore::seen_status() {
  auto status = co_await filter_.status(redis_, clock_());
  co_return status;
}

Task<Result<std::vector<ItemId>>> RedisFeedStore::newest_items(std::size_t limit) {
  std::array lists{
      redis::PartitionedTopN(keys_, static_cast<std::int64_t>(limit),
                             [](const redis::PartitionKeys& partition) { return partition.newest(); })};
  FRESHET_CO_TRY(rest, co_await redis::read_remaining(redis_, lists));
  std::vector<ItemId> out;
  for (const std::string& id : lists.front().members()) out.push_back(ItemId::trusted(id));
  co_return out;
}

// Read command for the hottest items; nullopt if they are cached for this second.
std::optional<redis::PartitionedTopN> RedisFeedStore::hot_items_read(UnixSeconds now) const {
  if (hot_items_read_at_ == now) return std::nullopt;
  return redis::PartitionedTopN(keys_, kMaxHotItems, [](const redis::PartitionKeys& partition) {
    return partition.rank(hot::kTrendingModel);
  });
}

// --- delivering pages

void RedisFeedStore::append_delivery(Pipeline& out, const redis::Script& script, const FeedRequest& request,
                                     const Page* partial) const {
  const std::string_view reader = request.reader.view();
  out.script(script).key(keys_.feed_cache(reader)).key(keys_.feed_state(reader));
  out.arg(request.limit - std::min(partial ? partial->items.size() : 0, request.limit))
      .arg(query_digest(request.query))
      .arg(request.idempotency_key)
      .arg(feed_settings_.replay_window.count())
      .arg(reader_settings_.bounded_ttl(reader, redis::kPendingTtl).count())
      .arg(feed_settings_.max_pending)
      .arg(partial ? partial->delivery_seq : 0)
      .arg(acknowledged_ttl(request.reader).count());
}

Task<Result<SwapResult>> RedisFeedStore::swap_buffer(const FeedRequest& request, const BufferSwap& swap) {
  Pipeline command;
  append_delivery(command, scripts::kFeedSwap, request, nullptr);
  command.arg(swap.generation)
      .arg(swap.delivery_seq)
      .arg(swap.external_impressions)
      .arg(swap.exhausted ? 1 : 0);
  command.arg(swap.candidates.size());
  for (const std::string& line : buffer_lines(swap.candidates, request.limit)) command.arg(line);
  for (const ItemId& item : swap.card_ids) items::append_card_read(command, keys_, item);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  SwapResult out;
  out.must_reload = redis::string_at(replies->front(), 0) == "again";
  if (out.must_reload) co_return out;
  FRESHET_CO_TRY(delivered, parse_page_result(replies->front(), clock_()));
  out.page = std::move(delivered->page);
  for (std::size_t i = 1; i < replies->size() && !(*replies)[i].is_error(); ++i)
    out.cards.push_back(items::parse_card((*replies)[i]));
  co_return out;
}

Task<Result<PageResult>> RedisFeedStore::next_page(const FeedRequest& request) {
  auto result = co_await deliver_page(request, nullptr);
  co_return result;
}

Task<Result<PageResult>> RedisFeedStore::refill_page(const FeedRequest& request, const Page& partial) {
  auto result = co_await deliver_page(request, &partial);
  co_return result;
}

Task<Result<PageResult>> RedisFeedStore::deliver_page(const FeedRequest& request, const Page* partial) {
  Pipeline command;
  append_delivery(command, scripts::kFeedNext, request, partial);
  command.arg(partial ? std::to_string(partial->generation) + kIdSeparator + std::to_string(partial->sequence)
                      : "");
  if (partial) {
    for (const ItemId& item : partial->items) command.arg(item.view());
  }
  command.add("ZREVRANGE", keys_.interactions(request.reader.view()), 0, kMaxNamedInterests - 1);
  const std::size_t epochs = epochs_.append_read(command, request.reader);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  const UnixSeconds now = clock_();
  auto result = parse_page_result(replies->front(), now);
  if (!result || result->status == PageResult::Status::kEmpty) co_return result;
  result->interests = parse_interests((*replies)[1], interaction_settings_);
  if (epochs > 0) {
    if (auto ok = epochs_.update(&(*replies)[2], request.reader); !ok) co_return tl::unexpected(ok.error());
  }
  if (!result->has_external_impressions) co_return result;
  FRESHET_CO_TRY(loaded, co_await filter_.load_day(redis_, now));
  FRESHET_CO_TRY(view, co_await read_seen_view(epochs_.filter_ids(request.reader), now));
  result->seen_view = std::move(*view);
  co_return result;
}

Task<Result<std::vector<ItemId>>> RedisFeedStore::replay_page(const FeedRequest& request,
                                                              const std::vector<ItemId>& items) {
  Pipeline command;
  command.script(scripts::kFeedReplay)
      .key(keys_.feed_state(request.reader.view()))
      .arg(request.idempotency_key);
  for (const ItemId& item : items) command.arg(item.view());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  co_return ids_of(*reply);
}

// --- recording impressions

Task<Result<void>> RedisFeedStore::record(ReaderId reader, Impressions impressions) {
  const std::vector<ItemId>& items = impressions.items;
  if (!impressions.is_recorded) {
    FRESHET_CO_TRY(added, co_await filter_.add(redis_, epochs_.filter_id(reader), items, impressions.at,
                                               impressions.is_resend));
  }
  Pipeline out;
  if (impressions.deliveries.empty()) {
    if (impressions.is_noted) co_return Result<void>();
    out.script(scripts::kFeedExternal).key(keys_.feed_state(reader.view()));
  } else {
    out.script(scripts::kFeedAck).key(keys_.feed_state(reader.view()));
    out.arg(acknowledged_ttl(reader).count()).arg(wall_ms().count());
    for (const Delivery& each : impressions.deliveries) {
      out.arg(each.seq);
      if (each.items == items) {
        out.arg("=");
        continue;
      }
      std::string shown_ids;
      bool all_shown = true;
      for (const ItemId& item : each.items) {
        const bool is_shown = std::find(items.begin(), items.end(), item) != items.end();
        if (is_shown) shown_ids.append(1, kIdSeparator).append(item.view());
        all_shown = all_shown && is_shown;
      }
      out.arg(all_shown ? "=" : shown_ids);
    }
  }
  FRESHET_CO_TRY(done, co_await redis::run_one(redis_, out));
  co_return Result<void>();
}

}  // namespace freshet::feed
