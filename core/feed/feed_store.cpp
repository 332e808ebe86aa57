#include "core/feed/feed_store.h"

#include <algorithm>

#include "core/items/item_store.h"
#include "core/readers/reader_store.h"
#include "core/redis/fields.h"
#include "core/redis/script_words.h"
#include "core/redis/scripts.h"

namespace freshet::feed {
namespace {

using redis::Pipeline;

constexpr std::size_t kInterests = 20;  // the newest items of a reader's interactions, that recall looks at
// A lost impression is sent again when its page was handed out so long ago: the background writer has had its
// chances by then.
constexpr std::int64_t kLostAfterMs = 30000;
// What is acknowledged is kept aside so long; feed_head.lua says it too.
constexpr std::int64_t kAcknowledgedForMs = 60000;

Error script_error(const redis::Reply& reply) {
  if (redis::says(reply.error(), redis::word::kTooManyPending))
    return {ErrorCode::kUnavailable, "too_many_pending", {}, "impressions wait to be recorded"};
  return redis::classify(reply.error());
}

std::vector<ItemId> ids_of(const redis::Reply& array) {
  std::vector<ItemId> out;
  out.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i)
    out.push_back(ItemId::trusted(std::string(redis::text_at(array, i))));
  return out;
}

// "generation sequence moves buffered exhausted item…", as feed_tail.lua writes it.
Result<Page> page_of(std::string_view text, bool replay) {
  const auto parts = redis::words(text);
  if (parts.size() < 5) return tl::unexpected(redis::malformed("feed_page"));
  Page page;
  page.generation = redis::parse_or_zero<std::int64_t>(parts[0]);
  page.sequence = redis::parse_or_zero<std::int64_t>(parts[1]);
  page.moves = redis::parse_or_zero<std::int64_t>(parts[2]);
  page.buffered = parts[3] == "1";
  page.exhausted = parts[4] == "1";
  page.replay = replay;
  for (std::size_t i = 5; i < parts.size(); ++i) page.items.push_back(ItemId::trusted(std::string(parts[i])));
  return page;
}

// "generation.moves item…": the member of what is pending, see feed_head.lua.
std::string pending_member(const Handout& handout) {
  std::string out = std::to_string(handout.generation) + "." + std::to_string(handout.moves);
  for (const ItemId& item : handout.items) out.append(" ").append(item.view());
  return out;
}

Handout handout_of(std::string_view member) {
  const auto parts = redis::words(member);
  Handout out;
  if (parts.empty()) return out;
  const std::size_t dot = std::min(parts[0].find('.'), parts[0].size() - 1);
  out.generation = redis::parse_or_zero<std::int64_t>(parts[0].substr(0, dot));
  out.moves = redis::parse_or_zero<std::int64_t>(parts[0].substr(dot + 1));
  for (std::size_t i = 1; i < parts.size(); ++i) out.items.push_back(ItemId::trusted(std::string(parts[i])));
  return out;
}

// The items of the newest interactions, each once at its newest place, worth as much as the strongest thing
// the reader did with it. What weighs nothing is no interest.
std::vector<Interest> interests_of(const redis::Reply& members, const InteractionSettings& settings) {
  std::vector<Interest> out;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto member = readers::interaction_member(redis::text_at(members, i));
    const double weight = member ? readers::interaction_weight(settings, member->kind) : 0;
    if (weight <= 0) continue;
    const auto known = std::find_if(out.begin(), out.end(),
                                    [&](const auto& each) { return each.item.view() == member->item; });
    if (known != out.end()) {
      known->weight = std::max(known->weight, weight);
    } else if (out.size() < kInterests) {
      out.push_back({ItemId::trusted(std::string(member->item)), weight});
    }
  }
  return out;
}

// The reply of feed_take.lua and feed_swap.lua.
Result<Taken> taken_of(const redis::Reply& reply) {
  if (reply.is_error()) return tl::unexpected(script_error(reply));
  const std::string_view state = redis::text_at(reply, 0);
  Taken taken;
  if (state == "empty") return taken;
  FRESHET_TRY(page, page_of(redis::text_at(reply, 1), state == "replay"));
  taken.state = Taken::State::kPage;
  taken.page = std::move(*page);
  return taken;
}

// Pairs of member and score; see feed_head.lua for both.
void read_pending(const redis::Reply& scored, std::int64_t now_ms, UnixSeconds now, Opening& out) {
  for (std::size_t i = 0; i + 1 < scored.size(); i += 2) {
    const std::int64_t score = redis::whole(redis::text_at(scored, i + 1));
    if (score > 0 && now_ms - score > kAcknowledgedForMs) continue;  // the filter alone decides
    Handout handout = handout_of(redis::text_at(scored, i));
    out.handed_out.insert(out.handed_out.end(), handout.items.begin(), handout.items.end());
    const std::int64_t age_ms = now_ms + score;
    if (score < 0 && age_ms > kLostAfterMs)
      out.unacknowledged.push_back({std::move(handout), now - seconds{age_ms / 1000}});
  }
}

}  // namespace

RedisFeedStore::RedisFeedStore(redis::Redis& redis, redis::Deferred& deferred, const SeenFilter& filter,
                               const Settings& settings, redis::Keys keys, Clock clock,
                               SeenEpochs::Name epoch_name)
    : redis_(redis),
      deferred_(deferred),
      filter_(filter),
      feed_(settings.feed),
      interactions_(settings.interactions),
      keys_(std::move(keys)),
      epochs_(keys_, std::move(epoch_name)),
      clock_(std::move(clock)) {}

// --- reading

Task<Result<Opening>> RedisFeedStore::open(const PageRequest& request, bool peek) {
  const std::string_view reader = request.reader.view();
  const bool remembered = !request.request.empty();
  Pipeline command;
  command.script(scripts::kFeedOpen, (remembered ? 5U : 4U), 2)
      .arg(keys_.feed_state(reader))
      .arg(keys_.feed_pending(reader))
      .arg(keys_.interactions(reader))
      .arg(keys_.feed_cache(reader));
  if (remembered) command.arg(keys_.feed_page(reader, request.request));
  command.arg(peek ? 1 : 0).arg(kMostInteractions);
  command.add("ZREVRANGE", keys_.rank(), 0, kHotHead - 1);
  const UnixSeconds now = clock_();
  const ReaderId known_as = epochs_.known_as(request.reader);
  epochs_.append_read(command, request.reader);
  filter_.append_read(command, known_as, now);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  const redis::Reply& opened = replies->front();
  if (opened.is_error()) co_return tl::unexpected(script_error(opened));
  Opening out;
  if (redis::text_at(opened, 0) == "replay") {
    FRESHET_CO_TRY(page, page_of(redis::text_at(opened, 1), true));
    out.replay = std::move(*page);
    co_return out;
  }
  if (opened.size() != 7) co_return tl::unexpected(redis::malformed("feed_open"));
  out.generation = redis::whole(redis::text_at(opened, 1));
  out.moves = redis::whole(redis::text_at(opened, 2));
  read_pending(opened[4], redis::whole(redis::text_at(opened, 3)), now, out);
  out.interests = interests_of(opened[5], interactions_);
  out.buffer = ids_of(opened[6]);
  out.hot = ids_of((*replies)[1]);
  FRESHET_CO_TRY(view, co_await view_of(*replies, 2, request.reader, known_as, now));
  out.seen = std::move(*view);
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
    if (first >= replies.size()) co_return tl::unexpected(redis::malformed("seen_epoch"));
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

// --- handing out

std::size_t RedisFeedStore::page_keys(const PageRequest& request) const {
  return 4U + (request.request.empty() ? 0U : 1U);
}

void RedisFeedStore::append_page_keys(Pipeline& out, const PageRequest& request) const {
  const std::string_view reader = request.reader.view();
  out.arg(keys_.feed_cache(reader)).arg(keys_.feed_state(reader)).arg(keys_.feed_pending(reader));
  out.arg(keys_.hidden());
  if (!request.request.empty()) out.arg(keys_.feed_page(reader, request.request));
}

void RedisFeedStore::append_page_arguments(Pipeline& out, const PageRequest& request,
                                           std::size_t kept) const {
  out.arg(request.limit - std::min(kept, request.limit))
      .arg(request.query)
      .arg(feed_.replay_window.count())
      .arg(redis::kPendingTtl.count())
      .arg(feed_.max_pending)
      .arg(request.request.empty() ? 0 : 1);
}

Task<Result<Refilled>> RedisFeedStore::swap(const PageRequest& request, const Refill& refill) {
  Pipeline command;
  command.script(scripts::kFeedSwap, page_keys(request), 10 + refill.candidates.size());
  append_page_keys(command, request);
  append_page_arguments(command, request, 0);
  command.arg(refill.generation).arg(refill.moves);
  command.arg(refill.exhausted ? 1 : 0).arg(feed_.buffer_ttl.count());
  for (const ItemId& item : refill.candidates) command.arg(item.view());
  for (const ItemId& item : refill.details) items::append_card(command, keys_, item);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  FRESHET_CO_TRY(taken, taken_of(replies->front()));
  Refilled out;
  out.page = std::move(taken->page);
  for (std::size_t i = 1; i < replies->size(); ++i) out.details.push_back(items::card_of((*replies)[i]));
  co_return out;
}

Task<Result<Taken>> RedisFeedStore::take(const PageRequest& request) {
  auto taken = co_await take_or_refill(request, nullptr);
  co_return taken;
}

Task<Result<Taken>> RedisFeedStore::refill(const PageRequest& request, const Page& kept) {
  auto taken = co_await take_or_refill(request, &kept);
  co_return taken;
}

Task<Result<Taken>> RedisFeedStore::take_or_refill(const PageRequest& request, const Page* kept) {
  Pipeline command;
  command.script(scripts::kFeedTake, page_keys(request), 8 + (kept ? kept->items.size() : 0));
  append_page_keys(command, request);
  append_page_arguments(command, request, kept ? kept->items.size() : 0);
  command.arg(kept ? kept->generation : 0).arg(kept ? kept->sequence : 0);
  if (kept) {
    for (const ItemId& item : kept->items) command.arg(item.view());
  }
  const UnixSeconds now = clock_();
  const ReaderId known_as = epochs_.known_as(request.reader);
  epochs_.append_read(command, request.reader);
  filter_.append_read(command, known_as, now);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  auto taken = taken_of(replies->front());
  if (!taken || taken->state == Taken::State::kEmpty) co_return taken;
  FRESHET_CO_TRY(view, co_await view_of(*replies, 1, request.reader, known_as, now));
  taken->seen = std::move(*view);
  co_return taken;
}

// --- behind the reply

void RedisFeedStore::record(const ReaderId& reader, const std::vector<Handout>& handouts,
                            const std::vector<ItemId>& shown, UnixSeconds at) {
  Pipeline out;
  if (!shown.empty()) filter_.append_add(out, epochs_.known_as(reader), shown, at);
  for (const Handout& each : handouts) {
    if (each.items.empty()) continue;
    Handout kept{each.generation, each.moves, {}};
    for (const ItemId& item : each.items) {
      if (std::find(shown.begin(), shown.end(), item) != shown.end()) kept.items.push_back(item);
    }
    out.script(scripts::kFeedAck, 1, 2).arg(keys_.feed_pending(reader.view())).arg(pending_member(each));
    out.arg(kept.items.empty() ? std::string() : pending_member(kept));
  }
  // Lost: the items stay pending, and a later refresh sends them again.
  if (!out.empty()) deferred_.post(std::move(out));
}

void RedisFeedStore::engaged(const ReaderId& reader, const ItemId& item) {
  Pipeline out;
  out.script(scripts::kEngaged, 2, 4)
      .arg(keys_.interactions(reader.view()))
      .arg(keys_.earlier(reader.view()))
      .arg(readers::interaction_member(readers::Interaction::kView, item.view()))
      .arg(interactions_.max_kept)
      .arg(interactions_.max_earlier())
      .arg(interactions_.ttl.count());
  deferred_.post(std::move(out));  // lost: an interest less
}

}  // namespace freshet::feed
