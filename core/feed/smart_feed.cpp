#include "core/feed/smart_feed.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/utf8.h"
#include "core/feed/feed_reasons.h"
#include "core/feed/seen_layout.h"

namespace freshet::feed {
namespace {

using Clock = std::chrono::steady_clock;
using IdSet = std::unordered_set<ItemId>;

// Recall goes deeper until at least 1/kUnseenDivisor of recall.size is unseen: a nearly empty
// buffer would have to be refilled for every page.
constexpr std::size_t kUnseenDivisor = 5;
// Cards fetched beyond the page, in case the swap drops some items.
constexpr std::size_t kSpareCards = 5;
// A page is refilled at most this many times; then it is served short.
constexpr int kMaxRefills = 3;
// Attempts to refresh, if too many pages are delivered while it searches.
constexpr int kMaxRefreshAttempts = 10;
// Position among the hottest items at which the effect of recall.trend_weight is half as large.
constexpr double kTrendHalfPosition = 10;
// Weight of each interest relative to the next newer one.
constexpr double kInterestDecay = 0.9;

// A reader with too many unacknowledged pages gets an error even if Redis is available.
bool is_redis_unavailable(const Error& error) {
  return error.reason != "too_many_pending" && is_unavailable(error);
}

FeedPage degraded_page(Dependency missing) {
  FeedPage page;
  page.degraded = missing;
  return page;
}

RecallQuery make_recall_query(const FeedRequest& request, const FeedState& state, UnixSeconds now,
                              double interest_weight) {
  RecallQuery query;
  query.text = request.query;
  query.reader = request.reader;
  query.cost = request.cost;
  query.now = now;
  if (!query.text.empty()) return query;
  query.interests = weigh_interests(state.interests);
  // Without interests the result is the newest items, whose scores are not used.
  if (!query.interests.empty()) query.interest_weight = interest_weight;
  return query;
}

std::vector<ItemId> ids_of(RecallResult recalled) {
  std::vector<ItemId> out;
  out.reserve(recalled.candidates.size());
  for (Candidate& each : recalled.candidates) out.push_back(std::move(each.item));
  return out;
}

std::vector<ItemId> ids_of(const std::vector<FeedItem>& items) {
  std::vector<ItemId> out;
  out.reserve(items.size());
  for (const FeedItem& each : items) out.push_back(each.id);
  return out;
}

// Returns a predicate: whether an item is by the reader, that is, the author's key is the reader's
// id.
auto is_by(const ReaderId& reader) {
  return [key = utf8::fold(reader.view())](const items::ItemCard& card) {
    std::string buffer;
    return author_key(card.author_id, card.author, buffer) == key;
  };
}

// Drops items that have since been seen elsewhere, are hidden or dated in the future, or no longer
// exist, and the reader's own.
std::vector<FeedItem> visible_items(std::vector<FeedItem> items, const std::vector<bool>& repeated,
                                    const ReaderId& reader, UnixSeconds now) {
  // If Redis lost its items (freshetctl rebuild-redis restores them), ids alone are better than
  // nothing.
  const bool none_known =
      std::none_of(items.begin(), items.end(), [](const FeedItem& item) { return item.card->known; });
  const auto is_own = is_by(reader);
  std::size_t count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const items::ItemCard& card = *items[i].card;
    if (repeated[i] || card.is_hidden_at(now) || !(card.known || none_known)) continue;
    if (is_own(card)) continue;
    if (count != i) items[count] = std::move(items[i]);
    ++count;
  }
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(count), items.end());
  return items;
}

// A text search is the reason for all its items, so no interests are named.
void trim_interests(const FeedRequest& request, std::vector<Interest>& interests) {
  const std::size_t limit = request.query.empty() ? kMaxNamedInterests : 0;
  if (interests.size() > limit)
    interests.erase(interests.begin() + static_cast<std::ptrdiff_t>(limit), interests.end());
}

// Alternates between fresh and hot items, without duplicates. REQUIRES: no duplicates within
// either.
std::vector<ItemId> interleave(std::vector<ItemId> fresh, const std::vector<ItemId>& hot) {
  if (hot.empty()) return fresh;
  std::vector<ItemId> out;
  std::unordered_set<std::string_view> added;
  out.reserve(fresh.size() + hot.size());
  added.reserve(fresh.size() + hot.size());
  for (std::size_t i = 0; i < std::max(fresh.size(), hot.size()); ++i) {
    for (const auto* source : {&std::as_const(fresh), &hot}) {
      if (i < source->size() && added.insert((*source)[i].view()).second) out.push_back((*source)[i]);
    }
  }
  return out;
}

}  // namespace

std::vector<Interest> weigh_interests(const std::vector<Interest>& newest_first) {
  std::vector<Interest> out;
  double weight = 1;
  for (const Interest& each : newest_first) {
    out.push_back({each.item, weight});
    weight *= kInterestDecay;
  }
  return out;
}

void order_by_trend(std::vector<Candidate>& candidates, const std::vector<ItemId>& hot, double weight) {
  if (weight == 0) return;
  std::unordered_map<std::string_view, std::size_t> positions;
  for (const ItemId& each : hot) positions.emplace(each.view(), positions.size());
  for (Candidate& each : candidates) {
    const auto found = positions.find(each.item.view());
    if (found != positions.end())
      each.score *= 1 + weight / (1 + static_cast<double>(found->second) / kTrendHalfPosition);
  }
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::score);
}

SmartFeed::SmartFeed(FeedStore& store, Recall& recall, items::CardCache& cards, const Settings& settings,
                     WallClock clock)
    : store_(store), recall_(recall), cards_(cards), settings_(settings.recall), clock_(std::move(clock)) {}

Task<Result<FeedPage>> SmartFeed::page(const FeedRequest& request) {
  Result<FeedPage> served;
  if (request.action == FeedAction::kLoadMore)
    served = co_await load_more(request);
  else if (!request.allow_writes)
    served = co_await stateless_refresh(request);
  else
    served = co_await refresh(request);
  if (!served && is_redis_unavailable(served.error())) co_return degraded_page(Dependency::kRedis);
  co_return served;
}

Task<Result<FeedPage>> SmartFeed::load_more(const FeedRequest& request) {
  FRESHET_CO_TRY(result, co_await store_.next_page(request));
  if (result->status == PageResult::Status::kEmpty && !request.allow_writes) {
    FeedPage end = degraded_page(Dependency::kWrites);
    end.exhausted = true;  // a refresh would show the first page again
    co_return end;
  }
  if (result->status == PageResult::Status::kEmpty) {
    auto refreshed = co_await refresh(request);
    co_return refreshed;
  }
  resend_unacknowledged(request.reader, result->unacknowledged);
  auto served = co_await serve_page(request, std::move(result->page), result->has_external_impressions,
                                    std::move(result->seen_view), std::move(result->interests));
  co_return served;
}

Task<Result<FeedPage>> SmartFeed::refresh(const FeedRequest& request) {
  for (int attempt = 0; attempt < kMaxRefreshAttempts; ++attempt) {
    FRESHET_CO_TRY(page, co_await try_refresh(request));
    if (*page) co_return std::move(**page);
  }
  co_return fail(ErrorCode::kUnavailable, "feed_busy", {}, "the reader requests too many pages at once");
}

Task<Result<std::optional<FeedPage>>> SmartFeed::try_refresh(const FeedRequest& request) {
  using Served = std::optional<FeedPage>;
  FRESHET_CO_TRY(state, co_await store_.load_state(request, false));
  if (state->is_replay) {
    FRESHET_CO_TRY(replayed, co_await load_more(request));
    co_return Served(std::move(*replayed));
  }
  resend_unacknowledged(request.reader, state->unacknowledged);
  auto found = co_await recall_unseen(request, *state);
  const bool searched = found.has_value();
  if (!searched) {
    if (!is_redis_unavailable(found.error())) co_return tl::unexpected(found.error());
    FRESHET_CO_TRY(old_page, co_await serve_old_buffer(request));
    if (old_page->generation > 0 || !request.query.empty()) co_return Served(std::move(*old_page));
    found = co_await fallback_candidates(request, *state);
    if (!found) co_return tl::unexpected(found.error());
  }
  BufferSwap swap{state->generation,       state->delivery_seq, state->external_impressions,
                  std::move(found->items), found->exhausted,    {}};
  swap.card_ids = cards_.missing(swap.candidates, request.limit + kSpareCards);
  trim_interests(request, state->interests);
  std::vector<ItemId> interest_ids;
  for (const Interest& each : state->interests) interest_ids.push_back(each.item);
  for (ItemId& each : cards_.missing(interest_ids, interest_ids.size()))
    swap.card_ids.push_back(std::move(each));
  const auto as_of = cards_.revision();
  FRESHET_CO_TRY(swapped, co_await store_.swap_buffer(request, swap));
  if (swapped->must_reload) co_return Served();
  cards_.insert(swap.card_ids, std::move(swapped->cards), as_of);
  FRESHET_CO_TRY(served, co_await serve_page(request, std::move(swapped->page), false, nullptr,
                                             std::move(state->interests)));
  if (!searched) served->degraded = Dependency::kIndex;
  co_return Served(std::move(*served));
}

// A refresh that stores nothing. Repeating it shows the same items.
Task<Result<FeedPage>> SmartFeed::stateless_refresh(const FeedRequest& request) {
  FeedRequest wanted = request;
  wanted.idempotency_key.clear();
  FRESHET_CO_TRY(state, co_await store_.load_state(wanted, true));
  auto found = co_await recall_unseen(request, *state);
  const bool searched = found.has_value();
  if (!searched && !is_redis_unavailable(found.error())) co_return tl::unexpected(found.error());
  if (!searched && !request.query.empty()) co_return degraded_page(Dependency::kIndex);
  if (!searched) found = co_await fallback_candidates(request, *state);
  if (!found) co_return tl::unexpected(found.error());
  std::vector<ItemId> best = found->items;
  best.resize(std::min(best.size(), request.limit + kSpareCards));
  trim_interests(request, state->interests);
  FRESHET_CO_TRY(cards, co_await load_cards(best, state->interests));
  FeedPage out = degraded_page(searched ? Dependency::kWrites : Dependency::kIndex);
  out.items =
      visible_items(std::move(cards->items), std::vector<bool>(best.size()), request.reader, clock_());
  if (out.items.size() > request.limit)
    out.items.erase(out.items.begin() + static_cast<std::ptrdiff_t>(request.limit), out.items.end());
  assign_reasons(request, state->interests, cards->interest_cards, out.items);
  co_return out;
}

// Recall failed, but items that were buffered before are still good.
Task<Result<FeedPage>> SmartFeed::serve_old_buffer(const FeedRequest& request) {
  FRESHET_CO_TRY(result, co_await store_.next_page(request));
  if (result->status == PageResult::Status::kEmpty) co_return degraded_page(Dependency::kIndex);
  resend_unacknowledged(request.reader, result->unacknowledged);
  auto served = co_await serve_page(request, std::move(result->page), result->has_external_impressions,
                                    std::move(result->seen_view), std::move(result->interests));
  if (served) {
    served->degraded = Dependency::kIndex;
    served->exhausted = false;  // unknown
  }
  co_return served;
}

// Without an index: the newest and hottest items, for one page only. Nothing is left in the buffer.
Task<Result<SmartFeed::UnseenItems>> SmartFeed::fallback_candidates(const FeedRequest& request,
                                                                    const FeedState& state) {
  FRESHET_CO_TRY(newest, co_await store_.newest_items(static_cast<std::size_t>(settings_.size)));
  std::vector<ItemId> candidates = interleave(std::move(*newest), state.hot_items);
  FRESHET_CO_TRY(remaining, co_await remove_seen(request.reader, state, std::move(candidates)));
  remaining->resize(std::min(remaining->size(), 2 * request.limit + kSpareCards));
  FRESHET_CO_TRY(known, co_await filter_known(*remaining));
  known->resize(std::min(known->size(), request.limit));
  UnseenItems out;
  out.items = std::move(*known);
  co_return out;
}

Task<Result<std::optional<std::size_t>>> SmartFeed::peek(const FeedRequest& request) {
  using Count = std::optional<std::size_t>;
  FeedRequest wanted = request;
  wanted.idempotency_key.clear();  // a count is not a page and has no replay
  const auto state = co_await store_.load_state(wanted, true);
  if (!state && is_redis_unavailable(state.error())) co_return Count();
  if (!state) co_return tl::unexpected(state.error());
  const auto found = co_await recall_unseen(request, *state);
  if (!found && is_redis_unavailable(found.error())) co_return Count();
  if (!found) co_return tl::unexpected(found.error());
  const IdSet buffered(state->buffered_items.begin(), state->buffered_items.end());
  const std::size_t count = std::min(request.limit, found->items.size());
  const auto end = found->items.begin() + static_cast<std::ptrdiff_t>(count);
  const auto known =
      std::count_if(found->items.begin(), end, [&](const ItemId& item) { return buffered.contains(item); });
  co_return Count(count - static_cast<std::size_t>(known));
}

// --- recall, deeper in steps until enough items are unseen

Task<Result<SmartFeed::UnseenItems>> SmartFeed::recall_unseen(const FeedRequest& request,
                                                              const FeedState& state) {
  const auto deadline = Clock::now() + settings_.budget;
  trending_ = {state.hot_items.begin(), state.hot_items.end()};
  RecallQuery query = make_recall_query(request, state, clock_(), settings_.interest_weight);
  const bool is_cold_start = query.text.empty() && query.interests.empty();
  std::vector<ItemId> hot;
  if (is_cold_start) {
    FRESHET_CO_TRY(known, co_await filter_known(state.hot_items));
    hot = std::move(*known);
  }
  UnseenItems out;
  const auto max_depth = static_cast<std::size_t>(std::max(settings_.max_depth, settings_.size));
  for (query.size = static_cast<std::size_t>(settings_.size);;
       query.size = std::min(2 * query.size, max_depth)) {
    co_await set_phase(RequestPhase::kRecall);
    auto recall_result = co_await recall_.search(query);
    if (!recall_result && !out.items.empty() && is_unavailable(recall_result.error())) co_return out;
    if (!recall_result) co_return tl::unexpected(recall_result.error());
    co_await set_phase(RequestPhase::kRank);
    const bool exhausted = recall_result->exhausted;
    if (query.text.empty() && !is_cold_start)
      order_by_trend(recall_result->candidates, state.hot_items, settings_.trend_weight);
    std::vector<ItemId> candidates = ids_of(std::move(*recall_result));
    if (is_cold_start) candidates = interleave(std::move(candidates), hot);
    FRESHET_CO_TRY(remaining, co_await remove_seen(request.reader, state, std::move(candidates)));
    out.items = std::move(*remaining);
    out.exhausted = exhausted;
    const std::size_t enough =
        std::max(request.limit, static_cast<std::size_t>(settings_.size) / kUnseenDivisor);
    if (out.exhausted || out.items.size() >= enough) co_return out;
    const bool is_late = Clock::now() >= deadline;
    if (query.size < max_depth && !is_late) continue;
    if (out.items.empty() && is_late) co_return fail(ErrorCode::kUnavailable, "search_timeout");
    out.exhausted = out.items.empty();
    co_return out;
  }
}

Task<Result<std::vector<ItemId>>> SmartFeed::remove_seen(const ReaderId& reader, const FeedState& state,
                                                         std::vector<ItemId> out) {
  std::unordered_set<std::string_view> excluded;
  for (const auto* items : {&state.delivered_items, &state.dismissed_items}) {
    for (const ItemId& each : *items) excluded.insert(each.view());
  }
  if (!excluded.empty())
    std::erase_if(out, [&](const ItemId& item) { return excluded.contains(item.view()); });
  FRESHET_CO_TRY(seen, co_await store_.check_seen(reader, state.seen_view, out));
  std::size_t count = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if ((*seen)[i]) continue;
    if (count != i) out[count] = std::move(out[i]);
    ++count;
  }
  out.resize(count);
  co_return out;
}

// --- serving a page

Task<Result<FeedPage>> SmartFeed::serve_page(const FeedRequest& request, Page page, bool recheck,
                                             std::shared_ptr<const SeenView> seen,
                                             std::vector<Interest> interests) {
  trim_interests(request, interests);
  FeedPage out;
  std::vector<items::SharedCard> interest_cards;
  std::vector<Delivery> deliveries;
  const auto is_own = is_by(request.reader);
  std::vector<ItemId> own_items;  // by the reader; recorded like shown ones, so that they do not come again
  for (int refills = 0;; ++refills) {
    deliveries.push_back({page.delivery_seq, page.items});
    FRESHET_CO_TRY(cards, co_await load_cards(page.items, interests));
    Result<std::vector<bool>> repeated(std::vector<bool>(page.items.size()));
    if (recheck && !page.replay) repeated = co_await store_.check_seen(request.reader, seen, page.items);
    if (!repeated) co_return tl::unexpected(repeated.error());
    for (const FeedItem& each : cards->items) {
      if (is_own(*each.card)) own_items.push_back(each.id);
    }
    out.items = visible_items(std::move(cards->items), *repeated, request.reader, clock_());
    interest_cards = std::move(cards->interest_cards);
    const bool is_complete = out.items.size() == page.items.size();
    if (is_complete || page.replay || refills == kMaxRefills) break;
    // No items to fill up with, and no replay to correct.
    if (!page.has_more_buffered && request.idempotency_key.empty()) break;
    page.items = ids_of(out.items);
    FRESHET_CO_TRY(refilled, co_await store_.refill_page(request, page));
    page = std::move(refilled->page);
    recheck = refilled->has_external_impressions;
    seen = std::move(refilled->seen_view);
  }
  out.generation = page.generation;
  out.sequence = page.sequence;
  out.exhausted = page.exhausted;
  if (page.replay && !page.acknowledged) {
    const std::vector<ItemId> wanted = ids_of(out.items);
    FRESHET_CO_TRY(allowed, co_await store_.replay_page(request, wanted));
    const IdSet allowed_ids(allowed->begin(), allowed->end());
    std::erase_if(out.items, [&](const FeedItem& item) { return !allowed_ids.contains(item.id); });
  }
  const std::vector<ItemId> shown = ids_of(out.items);
  assign_reasons(request, interests, interest_cards, out.items);
  if (!page.replay) {
    if (impression_observer_) impression_observer_(shown);
    std::vector<ItemId> recorded = shown;
    recorded.insert(recorded.end(), own_items.begin(), own_items.end());
    record(request.reader, {std::move(deliveries), std::move(recorded), clock_(), false, false});
  }
  co_return out;
}

Task<Result<SmartFeed::PageCards>> SmartFeed::load_cards(const std::vector<ItemId>& items,
                                                         const std::vector<Interest>& interests) {
  std::vector<ItemId> all_ids;
  if (!interests.empty()) all_ids = items;
  for (const Interest& each : interests) all_ids.push_back(each.item);
  const std::vector<ItemId>& ids = interests.empty() ? items : all_ids;
  FRESHET_CO_TRY(cards, co_await cards_.get(ids));
  PageCards out;
  out.items.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) out.items.push_back({items[i], std::move((*cards)[i]), {}});
  out.interest_cards.assign(cards->begin() + static_cast<std::ptrdiff_t>(items.size()), cards->end());
  co_return out;
}

void SmartFeed::assign_reasons(const FeedRequest& request, const std::vector<Interest>& interests,
                               const std::vector<items::SharedCard>& interest_cards,
                               std::vector<FeedItem>& items) const {
  const FeedReasons reasons(interests, interest_cards, trending_, clock_());
  for (FeedItem& each : items) {
    if (request.query.empty())
      each.reason = reasons.reason(each.id, *each.card);
    else
      each.reason.kind = readers::Reason::Kind::kQuery;
  }
}

// Drops ids without an item: events may name items that were never put.
Task<Result<std::vector<ItemId>>> SmartFeed::filter_known(const std::vector<ItemId>& items) {
  const std::vector<Interest> none;
  FRESHET_CO_TRY(cards, co_await load_cards(items, none));
  const UnixSeconds now = clock_();
  std::erase_if(cards->items,
                [&](const FeedItem& item) { return !item.card->known || item.card->is_hidden_at(now); });
  co_return ids_of(cards->items);
}

// Failures are ignored: the delivery stays unacknowledged and is recorded at a later request.
void SmartFeed::record(const ReaderId& reader, Impressions impressions) {
  const auto await = [](Task<Result<void>> task) -> Task<void> { co_await task; };
  ++pending_records_;
  spawn(await(store_.record(reader, std::move(impressions))), [this](std::exception_ptr) {
    if (--pending_records_ == 0 && recorded_callback_) std::exchange(recorded_callback_, nullptr)();
  });
}

void SmartFeed::record_use(const ReaderId& reader, const ItemId& item, std::optional<UnixSeconds> at,
                           bool is_noted) {
  const UnixSeconds now = clock_();
  if (at && *at < now - std::chrono::days(kSeenDays)) return;  // imported: the filter has forgotten that day
  // An imported or spooled use may belong to an earlier day.
  const bool is_resend = at && *at < now;
  Impressions impressions{{}, {item}, std::min(at.value_or(now), now), is_resend};
  impressions.is_noted = is_noted;
  record(reader, std::move(impressions));
}

void SmartFeed::notify_when_recorded(std::function<void()> done) {
  if (pending_records_ == 0) return done();
  recorded_callback_ = std::move(done);
}

void SmartFeed::resend_unacknowledged(const ReaderId& reader,
                                      const std::vector<UnacknowledgedDelivery>& deliveries) {
  for (const UnacknowledgedDelivery& each : deliveries) {
    record(reader, {{each.delivery}, each.delivery.items, each.delivered_at, true, each.is_recorded});
  }
}

}  // namespace freshet::feed
