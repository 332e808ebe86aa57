#include "core/feed/feed_store.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/feed/interests.h"
#include "core/items/item_store.h"
#include "core/readers/reader_store.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::feed {
namespace {

using redis::Pipeline;

// A page that is not acknowledged so long after it was handed out will not be by who did it: its
// impressions are sent again.
constexpr std::int64_t kLostAfterMs = 5000;
// What is acknowledged is kept aside so long.
constexpr std::int64_t kAcknowledgedForMs = 60000;

std::string digest(const std::string& query) {
  if (query.empty()) return {};
  std::array<char, 16> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), XXH3_64bits(query.data(), query.size()), 16).ptr;
  return {text.data(), end};
}

// Of elements that are lines of ids, or one id each.
std::vector<ItemId> ids_of(const redis::Reply& array) {
  std::vector<ItemId> out;
  out.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    for (const std::string_view id : redis::split_words(redis::string_at(array, i)))
      out.push_back(ItemId::trusted(std::string(id)));
  }
  return out;
}

// Lines of a buffer, each of a page's items: an element for each item would be most of what a
// refresh costs Redis.
std::vector<std::string> lines_of(const std::vector<ItemId>& items, std::size_t page) {
  const std::size_t each = std::max(page, items.size() / kMostLines + 1);
  std::vector<std::string> out;
  out.reserve(items.size() / each + 1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i % each == 0)
      out.emplace_back();
    else
      out.back() += ' ';
    out.back() += items[i].view();
  }
  return out;
}

// A page as feed_state.lua describes it.
struct KeptPage {
  bool acknowledged = false;
  std::string_view request;  // empty of older pages than the last four: they are not shown again
  std::int64_t time_ms = 0;  // when it was handed out, then acknowledged
  Page page;
};

std::optional<KeptPage> kept_page(std::string_view text) {
  const auto parts = redis::split_words(text);
  if (parts.size() < 7 || parts[0].size() < 2) return std::nullopt;
  KeptPage out;
  out.acknowledged = parts[0][0] == '1';
  out.request = parts[0].substr(2);
  out.page.handout_seq = redis::parse_or_zero<std::int64_t>(parts[1]);
  out.time_ms = redis::parse_or_zero<std::int64_t>(parts[2]);
  out.page.generation = redis::parse_or_zero<std::int64_t>(parts[3]);
  out.page.sequence = redis::parse_or_zero<std::int64_t>(parts[4]);
  out.page.buffered = parts[5] == "1";
  out.page.exhausted = parts[6] == "1";
  for (std::size_t i = 7; i < parts.size(); ++i)
    out.page.items.push_back(
        ItemId::trusted(std::string(parts[i].substr(parts[i].starts_with(':') ? 1 : 0))));
  return out;
}

// The clock's reply, in ms.
std::int64_t clock_ms(const redis::Reply& time) {
  return redis::to_int(redis::string_at(time, 0)) * 1000 + redis::to_int(redis::string_at(time, 1)) / 1000;
}

std::int64_t age_ms(const KeptPage& page, std::int64_t now_ms) { return now_ms - page.time_ms; }

// The page, when it has waited for so long that nobody will acknowledge it any more.
void add_lost(KeptPage page, std::int64_t now_ms, UnixSeconds now, std::vector<Unacknowledged>& out) {
  const std::int64_t age = age_ms(page, now_ms);
  if (page.acknowledged || age <= kLostAfterMs) return;
  out.push_back({{page.page.handout_seq, std::move(page.page.items)}, now - seconds{age / 1000}, false});
}

// The reply of feed_take.lua and feed_swap.lua.
Result<Taken> taken_of(const redis::Reply& reply, UnixSeconds now) {
  if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
  const std::string_view state = redis::string_at(reply, 0);
  Taken taken;
  if (state == "empty") return taken;
  auto page = kept_page(redis::string_at(reply, 1));
  if (!page) return tl::unexpected(redis::malformed_reply("feed_take"));
  const std::int64_t now_ms = page->time_ms;
  taken.state = Taken::State::kPage;
  taken.page = std::move(page->page);
  taken.page.acknowledged = page->acknowledged;
  taken.page.replay = state == "replay";
  taken.noted = redis::string_at(reply, 2) == "1";
  for (std::size_t i = 0; i < reply[3].size(); ++i) {
    if (auto waiting = kept_page(redis::string_at(reply[3], i)))
      add_lost(std::move(*waiting), now_ms, now, taken.unacknowledged);
  }
  return taken;
}

// The fields of a feed's hash that open() reads.
enum StateField : std::uint8_t { kHead = 4, kNoted = 5, kLate = 6 };

void append_state(Pipeline& out, std::string_view key) {
  out.add("HMGET", key, "0", "1", "2", "3", "head", "noted", "late");
}

// All pages that the hash has.
std::vector<KeptPage> kept_pages(const redis::Reply& state) {
  std::vector<KeptPage> out;
  for (std::size_t slot = 0; slot < kHead; ++slot) {
    if (auto page = kept_page(redis::string_at(state, slot))) out.push_back(std::move(*page));
  }
  std::string_view late = redis::string_at(state, kLate);
  while (!late.empty()) {
    const std::size_t end = std::min(late.find('\n'), late.size() - 1);
    if (auto page = kept_page(late.substr(0, end))) {
      page->request = {};
      out.push_back(std::move(*page));
    }
    late.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

RedisFeedStore::RedisFeedStore(redis::Redis& redis, SeenFilter& filter, const Settings& settings,
                               redis::Keys keys, Clock clock, SeenEpochs::Name epoch_name)
    : redis_(redis),
      filter_(filter),
      feed_(settings.feed),
      interactions_(settings.interactions),
      keys_(std::move(keys)),
      epochs_(keys_, std::move(epoch_name)),
      clock_(std::move(clock)) {}

// --- reading

Task<Result<Opening>> RedisFeedStore::open(const FeedRequest& request, bool peek) {
  const UnixSeconds now = clock_();
  FRESHET_CO_TRY(learned, co_await filter_.learn(redis_, now));
  const std::string_view reader = request.reader.view();
  // The pages before the filter: what is acknowledged there is found here.
  Pipeline command;
  append_state(command, keys_.feed_state(reader));
  command.add("TIME");
  command.add("ZREVRANGE", keys_.interactions(reader), 0, kMostInteractions - 1);
  const std::size_t hot_at = command.size();
  auto hot = hot_head(now);
  if (hot) hot->append(command);
  const std::size_t buffer_at = command.size();
  if (peek) command.add("LRANGE", keys_.feed_cache(reader), 0, -1);
  const std::size_t first = command.size();
  const ReaderId known_as = epochs_.known_as(request.reader);
  epochs_.append_read(command, request.reader);
  filter_.append_read(command, known_as, now);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  for (std::size_t i = 0; i < first; ++i) {
    if ((*replies)[i].is_error()) co_return tl::unexpected(redis::classify((*replies)[i].error()));
  }
  if (hot) {
    const redis::Reply* at = &(*replies)[hot_at];
    hot->consume(at);
    FRESHET_CO_TRY(rest, co_await redis::read_remaining(redis_, std::span(&*hot, 1)));
    hot_.clear();
    for (const std::string& id : hot->members()) hot_.push_back(ItemId::trusted(id));
    hot_read_ = now;
  }
  const redis::Reply& state = replies->front();
  const std::int64_t now_ms = clock_ms((*replies)[1]);
  Opening out;
  out.interests = interests_of((*replies)[2], interactions_);
  for (KeptPage& each : kept_pages(state)) {
    const bool asked = !request.request.empty() && each.request == request.request;
    if (asked && age_ms(each, now_ms) <= milliseconds(feed_.replay_window).count()) {
      out.replay = true;
      co_return out;
    }
    if (each.acknowledged && age_ms(each, now_ms) > kAcknowledgedForMs) continue;  // the filter alone decides
    out.handed_out.insert(out.handed_out.end(), each.page.items.begin(), each.page.items.end());
    add_lost(std::move(each), now_ms, now, out.unacknowledged);
  }
  const auto head = redis::split_words(redis::string_at(state, kHead));
  if (head.size() >= 3) {
    out.generation = redis::parse_or_zero<std::int64_t>(head[0]);
    out.handout_seq = redis::parse_or_zero<std::int64_t>(head[2]);
  }
  out.noted = redis::parse_or_zero<std::int64_t>(redis::string_at(state, kNoted));
  out.hot = hot_;
  if (peek) out.buffer = ids_of((*replies)[buffer_at]);
  FRESHET_CO_TRY(view, co_await view_of(*replies, first, request.reader, known_as, now));
  out.seen = std::move(*view);
  if (!out.seen) co_return out;
  for (Unacknowledged& each : out.unacknowledged) {
    const auto known = out.seen->contain(each.handout.items);
    each.recorded = std::find(known.begin(), known.end(), false) == known.end();
  }
  co_return out;
}

Task<Result<std::shared_ptr<const SeenView>>> RedisFeedStore::view_of(const redis::Replies& replies,
                                                                      std::size_t first,
                                                                      const ReaderId& reader,
                                                                      const ReaderId& known_as,
                                                                      UnixSeconds now) {
  Pipeline again;
  const std::size_t epochs = epochs_.append_read(again, reader);
  if (epochs > 0) {
    if (first >= replies.size()) co_return tl::unexpected(redis::malformed_reply("seen_epoch"));
    if (auto ok = epochs_.update(replies[first], reader); !ok) co_return tl::unexpected(ok.error());
  }
  const ReaderId now_known_as = epochs_.known_as(reader);
  if (now_known_as == known_as) co_return filter_.view(replies, first + epochs, known_as, now);
  again.clear();
  if (filter_.append_read(again, now_known_as, now) == 0) co_return std::shared_ptr<const SeenView>();
  FRESHET_CO_TRY(reread, co_await redis_.run(again));
  co_return filter_.view(*reread, 0, now_known_as, now);
}

Task<Result<std::vector<bool>>> RedisFeedStore::seen(const ReaderId& reader,
                                                     const std::shared_ptr<const SeenView>& view,
                                                     const std::vector<ItemId>& items) {
  const ReaderId known_as = epochs_.known_as(reader);
  auto checked = co_await filter_.check(redis_, known_as, view, items, clock_());
  co_return checked;
}

Task<Result<SeenStatus>> RedisFeedStore::seen_status() {
  auto status = co_await filter_.status(redis_, clock_());
  co_return status;
}

Task<Result<std::vector<ItemId>>> RedisFeedStore::newest(std::size_t most) {
  std::array lists{redis::PartitionedTopN(keys_, static_cast<std::int64_t>(most),
                                     [](const redis::PartitionKeys& of) { return of.newest(); })};
  FRESHET_CO_TRY(read, co_await redis::read_remaining(redis_, lists));
  std::vector<ItemId> out;
  for (const std::string& id : lists.front().members()) out.push_back(ItemId::trusted(id));
  co_return out;
}

// The hottest to be asked for; nullopt when this second's are known.
std::optional<redis::PartitionedTopN> RedisFeedStore::hot_head(UnixSeconds now) const {
  if (hot_read_ == now) return std::nullopt;
  return redis::PartitionedTopN(keys_, kHotHead,
                           [](const redis::PartitionKeys& of) { return of.rank(hot::kEngagementModel); });
}

// --- handing out

void RedisFeedStore::append_page(Pipeline& out, const redis::Script& script, const FeedRequest& request,
                                 const Page* kept) const {
  const std::string_view reader = request.reader.view();
  out.script(script).key(keys_.feed_cache(reader)).key(keys_.feed_state(reader));
  out.arg(request.limit - std::min(kept ? kept->items.size() : 0, request.limit))
      .arg(digest(request.query))
      .arg(request.request)
      .arg(feed_.replay_window.count())
      .arg(redis::kPendingTtl.count())
      .arg(feed_.max_pending)
      .arg(kept ? kept->handout_seq : 0)
      .arg(acknowledged_ttl().count());
}

Task<Result<Refilled>> RedisFeedStore::swap(const FeedRequest& request, const Refill& refill) {
  Pipeline command;
  append_page(command, scripts::kFeedSwap, request, nullptr);
  command.arg(refill.generation).arg(refill.handout_seq).arg(refill.noted).arg(refill.exhausted ? 1 : 0);
  command.arg(refill.candidates.size());
  for (const std::string& line : lines_of(refill.candidates, request.limit)) command.arg(line);
  for (const ItemId& item : refill.details) items::append_card_read(command, keys_, item);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  Refilled out;
  out.again = redis::string_at(replies->front(), 0) == "again";
  if (out.again) co_return out;
  FRESHET_CO_TRY(taken, taken_of(replies->front(), clock_()));
  out.page = std::move(taken->page);
  for (std::size_t i = 1; i < replies->size(); ++i) out.details.push_back(items::parse_card((*replies)[i]));
  co_return out;
}

Task<Result<Taken>> RedisFeedStore::take(const FeedRequest& request) {
  auto taken = co_await take_or_refill(request, nullptr);
  co_return taken;
}

Task<Result<Taken>> RedisFeedStore::refill(const FeedRequest& request, const Page& kept) {
  auto taken = co_await take_or_refill(request, &kept);
  co_return taken;
}

Task<Result<Taken>> RedisFeedStore::take_or_refill(const FeedRequest& request, const Page* kept) {
  Pipeline command;
  append_page(command, scripts::kFeedTake, request, kept);
  command.arg(kept ? std::to_string(kept->generation) + " " + std::to_string(kept->sequence) : "");
  if (kept) {
    for (const ItemId& item : kept->items) command.arg(item.view());
  }
  command.add("ZREVRANGE", keys_.interactions(request.reader.view()), 0, kNamedInterests - 1);
  const std::size_t epochs = epochs_.append_read(command, request.reader);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  const UnixSeconds now = clock_();
  auto taken = taken_of(replies->front(), now);
  if (!taken || taken->state == Taken::State::kEmpty) co_return taken;
  taken->interests = interests_of((*replies)[1], interactions_);
  if (epochs > 0) {
    if (auto ok = epochs_.update((*replies)[2], request.reader); !ok) co_return tl::unexpected(ok.error());
  }
  if (!taken->noted) co_return taken;
  FRESHET_CO_TRY(learned, co_await filter_.learn(redis_, now));
  Pipeline read;
  const ReaderId known_as = epochs_.known_as(request.reader);
  if (filter_.append_read(read, known_as, now) == 0) co_return taken;
  FRESHET_CO_TRY(shards, co_await redis_.run(read));
  FRESHET_CO_TRY(view, filter_.view(*shards, 0, known_as, now));
  taken->seen = std::move(*view);
  co_return taken;
}

Task<Result<std::vector<ItemId>>> RedisFeedStore::show_again(const FeedRequest& request,
                                                             const std::vector<ItemId>& items) {
  Pipeline command;
  command.script(scripts::kFeedAgain).key(keys_.feed_state(request.reader.view())).arg(request.request);
  for (const ItemId& item : items) command.arg(item.view());
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  co_return ids_of(*reply);
}

// --- behind the reply

Task<Result<void>> RedisFeedStore::record(ReaderId reader, Impressions impressions) {
  const std::vector<ItemId>& shown = impressions.shown;
  if (!impressions.recorded) {
    FRESHET_CO_TRY(added, co_await filter_.add(redis_, epochs_.known_as(reader), shown, impressions.at,
                                               impressions.again));
  }
  Pipeline out;
  if (impressions.handouts.empty()) {
    out.script(scripts::kFeedNote).key(keys_.feed_state(reader.view()));
  } else {
    out.script(scripts::kFeedAck).key(keys_.feed_state(reader.view())).arg(acknowledged_ttl().count());
    for (const Handout& each : impressions.handouts) {
      out.arg(each.handout_seq);
      if (each.items == shown) {
        out.arg("=");
        continue;
      }
      std::string kept;
      bool whole = true;
      for (const ItemId& item : each.items) {
        const bool is_shown = std::find(shown.begin(), shown.end(), item) != shown.end();
        if (is_shown) kept.append(" ").append(item.view());
        whole = whole && is_shown;
      }
      out.arg(whole ? "=" : kept);
    }
  }
  FRESHET_CO_TRY(done, co_await redis::run_one(redis_, out));
  co_return Result<void>();
}

}  // namespace freshet::feed
