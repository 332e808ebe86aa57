#include "core/feed/smart_feed.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/feed/feed_reasons.h"

namespace freshet::feed {
namespace {

using Clock = std::chrono::steady_clock;
using IdSet = std::unordered_set<ItemId>;

// A refresh wants at least this share of a step's candidates unseen, or it asks for more: a buffer
// that is nearly empty would be refilled at every page.
constexpr std::size_t kWantedShare = 5;
// Cards fetched beyond the page, for what the swap may leave out.
constexpr std::size_t kSpareCards = 5;
// A page is filled up so often at most; then it stays short.
constexpr int kMostRefills = 3;
// A refresh begins so often at most, when too much was handed out while it searched.
constexpr int kMostOpenings = 10;
// Each interest weighs so much of the one after it in time.
constexpr double kInterestFade = 0.9;

// A reader with too many pages that are not acknowledged is told so, however well Redis is.
bool redis_is_away(const Error& error) { return error.reason != "too_many_pending" && is_unavailable(error); }

FeedPage degraded(Dependency missing) {
  FeedPage page;
  page.degraded = missing;
  return page;
}

RecallQuery recall_query(const FeedRequest& request, const Opening& opening, UnixSeconds now) {
  RecallQuery query;
  query.text = request.query;
  query.reader = request.reader;
  query.cost = request.cost;
  query.now = now;
  if (!query.text.empty()) return query;
  double weight = 1;
  for (const Interest& interest : opening.interests) {
    query.interests.push_back({interest.item, weight});
    weight *= kInterestFade;
  }
  return query;
}

std::vector<ItemId> ids_of(Recalled recalled) {
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

// Without what was seen elsewhere meanwhile, what is hidden or dated ahead, and what is not there
// any more.
std::vector<FeedItem> showable(std::vector<FeedItem> items, const std::vector<bool>& repeated,
                               UnixSeconds now) {
  // Redis lost its items (they come back by freshetctl rebuild-redis): ids are better than nothing.
  const bool none_known =
      std::none_of(items.begin(), items.end(), [](const FeedItem& item) { return item.card->known; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const items::ItemCard& card = *items[i].card;
    if (repeated[i] || card.is_hidden_at(now) || !(card.known || none_known)) continue;
    if (kept != i) items[kept] = std::move(items[i]);
    ++kept;
  }
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(kept), items.end());
  return items;
}

// What is searched for is its own reason.
void keep_named(const FeedRequest& request, std::vector<Interest>& interests) {
  const std::size_t most = request.query.empty() ? kNamedInterests : 0;
  if (interests.size() > most)
    interests.erase(interests.begin() + static_cast<std::ptrdiff_t>(most), interests.end());
}

// The fresh and the hot in turns, each once. REQUIRES: none stands twice in either.
std::vector<ItemId> in_turns(std::vector<ItemId> fresh, const std::vector<ItemId>& hot) {
  if (hot.empty()) return fresh;
  std::vector<ItemId> out;
  std::unordered_set<std::string_view> taken;
  out.reserve(fresh.size() + hot.size());
  taken.reserve(fresh.size() + hot.size());
  for (std::size_t i = 0; i < std::max(fresh.size(), hot.size()); ++i) {
    for (const auto* source : {&std::as_const(fresh), &hot}) {
      if (i < source->size() && taken.insert((*source)[i].view()).second) out.push_back((*source)[i]);
    }
  }
  return out;
}

}  // namespace

SmartFeed::SmartFeed(FeedStore& store, Recall& recall, items::CardCache& cards, const Settings& settings,
                     WallClock clock)
    : store_(store), recall_(recall), cards_(cards), settings_(settings.recall), clock_(std::move(clock)) {}

Task<Result<FeedPage>> SmartFeed::page(const FeedRequest& request) {
  Result<FeedPage> served;
  if (request.action == FeedAction::kLoadMore)
    served = co_await load_more(request);
  else if (!request.keeps)
    served = co_await glance(request);
  else
    served = co_await refresh(request);
  if (!served && redis_is_away(served.error())) co_return degraded(Dependency::kRedis);
  co_return served;
}

Task<Result<FeedPage>> SmartFeed::load_more(const FeedRequest& request) {
  FRESHET_CO_TRY(taken, co_await store_.take(request));
  if (taken->state == Taken::State::kEmpty && !request.keeps) co_return degraded(Dependency::kWrites);
  if (taken->state == Taken::State::kEmpty) {
    auto refreshed = co_await refresh(request);
    co_return refreshed;
  }
  record_lost(request.reader, taken->unacknowledged);
  auto served = co_await serve(request, std::move(taken->page), taken->noted, std::move(taken->seen),
                               std::move(taken->interests));
  co_return served;
}

Task<Result<FeedPage>> SmartFeed::refresh(const FeedRequest& request) {
  for (int tries = 0; tries < kMostOpenings; ++tries) {
    FRESHET_CO_TRY(page, co_await try_refresh(request));
    if (*page) co_return std::move(**page);
  }
  co_return fail(ErrorCode::kUnavailable, "feed_busy", {}, "the reader asks for many pages at once");
}

Task<Result<std::optional<FeedPage>>> SmartFeed::try_refresh(const FeedRequest& request) {
  using Served = std::optional<FeedPage>;
  FRESHET_CO_TRY(opening, co_await store_.open(request, false));
  if (opening->replay) {
    FRESHET_CO_TRY(replayed, co_await load_more(request));
    co_return Served(std::move(*replayed));
  }
  record_lost(request.reader, opening->unacknowledged);
  auto found = co_await unseen(request, *opening);
  const bool searched = found.has_value();
  if (!searched) {
    if (!redis_is_away(found.error())) co_return tl::unexpected(found.error());
    FRESHET_CO_TRY(old, co_await from_old_buffer(request));
    if (old->generation > 0 || !request.query.empty()) co_return Served(std::move(*old));
    found = co_await from_heads(request, *opening);
    if (!found) co_return tl::unexpected(found.error());
  }
  Refill refill{opening->generation,     opening->handout_seq, opening->noted,
                std::move(found->items), found->exhausted,     {}};
  refill.details = cards_.missing(refill.candidates, request.limit + kSpareCards);
  keep_named(request, opening->interests);
  std::vector<ItemId> named;
  for (const Interest& each : opening->interests) named.push_back(each.item);
  for (ItemId& each : cards_.missing(named, named.size())) refill.details.push_back(std::move(each));
  const auto as_of = cards_.revision();
  FRESHET_CO_TRY(refilled, co_await store_.swap(request, refill));
  if (refilled->again) co_return Served();
  cards_.insert(refill.details, std::move(refilled->details), as_of);
  FRESHET_CO_TRY(served, co_await serve(request, std::move(refilled->page), false, nullptr,
                                        std::move(opening->interests)));
  if (!searched) served->degraded = Dependency::kIndex;
  co_return Served(std::move(*served));
}

// A refresh of which nothing is left behind: the same again shows the same.
Task<Result<FeedPage>> SmartFeed::glance(const FeedRequest& request) {
  FeedRequest wanted = request;
  wanted.request.clear();
  FRESHET_CO_TRY(opening, co_await store_.open(wanted, true));
  auto found = co_await unseen(request, *opening);
  const bool searched = found.has_value();
  if (!searched && !redis_is_away(found.error())) co_return tl::unexpected(found.error());
  if (!searched && !request.query.empty()) co_return degraded(Dependency::kIndex);
  if (!searched) found = co_await from_heads(request, *opening);
  if (!found) co_return tl::unexpected(found.error());
  std::vector<ItemId> best = found->items;
  best.resize(std::min(best.size(), request.limit + kSpareCards));
  keep_named(request, opening->interests);
  FRESHET_CO_TRY(cards, co_await with_cards(best, opening->interests));
  FeedPage out = degraded(searched ? Dependency::kWrites : Dependency::kIndex);
  out.items = showable(std::move(cards->items), std::vector<bool>(best.size()), clock_());
  if (out.items.size() > request.limit)
    out.items.erase(out.items.begin() + static_cast<std::ptrdiff_t>(request.limit), out.items.end());
  give_reasons(request, opening->interests, cards->named, out.items);
  co_return out;
}

// Recall failed: what was buffered before is still good.
Task<Result<FeedPage>> SmartFeed::from_old_buffer(const FeedRequest& request) {
  FRESHET_CO_TRY(taken, co_await store_.take(request));
  if (taken->state == Taken::State::kEmpty) co_return degraded(Dependency::kIndex);
  record_lost(request.reader, taken->unacknowledged);
  auto served = co_await serve(request, std::move(taken->page), taken->noted, std::move(taken->seen),
                               std::move(taken->interests));
  if (served) {
    served->degraded = Dependency::kIndex;
    served->exhausted = false;  // it is not known
  }
  co_return served;
}

// What Redis has to show when nothing can be searched: a page, and nothing to wait in the buffer.
Task<Result<SmartFeed::Unseen>> SmartFeed::from_heads(const FeedRequest& request, const Opening& opening) {
  FRESHET_CO_TRY(newest, co_await store_.newest(static_cast<std::size_t>(settings_.size)));
  std::vector<ItemId> heads = in_turns(std::move(*newest), opening.hot);
  FRESHET_CO_TRY(left, co_await without_seen(request.reader, opening, std::move(heads)));
  left->resize(std::min(left->size(), 2 * request.limit + kSpareCards));
  FRESHET_CO_TRY(known, co_await known_of(*left));
  known->resize(std::min(known->size(), request.limit));
  Unseen out;
  out.items = std::move(*known);
  co_return out;
}

Task<Result<std::optional<std::size_t>>> SmartFeed::peek(const FeedRequest& request) {
  using Count = std::optional<std::size_t>;
  FeedRequest wanted = request;
  wanted.request.clear();  // a count is no page
  const auto opening = co_await store_.open(wanted, true);
  if (!opening && redis_is_away(opening.error())) co_return Count();
  if (!opening) co_return tl::unexpected(opening.error());
  const auto found = co_await unseen(request, *opening);
  if (!found && redis_is_away(found.error())) co_return Count();
  if (!found) co_return tl::unexpected(found.error());
  const IdSet waiting(opening->buffer.begin(), opening->buffer.end());
  const std::size_t first = std::min(request.limit, found->items.size());
  const auto end = found->items.begin() + static_cast<std::ptrdiff_t>(first);
  const auto known =
      std::count_if(found->items.begin(), end, [&](const ItemId& item) { return waiting.contains(item); });
  co_return Count(first - static_cast<std::size_t>(known));
}

// --- recall, in steps, until enough of it is unseen

Task<Result<SmartFeed::Unseen>> SmartFeed::unseen(const FeedRequest& request, const Opening& opening) {
  const auto deadline = Clock::now() + settings_.budget;
  trending_ = {opening.hot.begin(), opening.hot.end()};
  RecallQuery query = recall_query(request, opening, clock_());
  const bool cold = query.text.empty() && query.interests.empty();
  std::vector<ItemId> hot;
  if (cold) {
    FRESHET_CO_TRY(known, co_await known_of(opening.hot));
    hot = std::move(*known);
  }
  Unseen out;
  const auto most = static_cast<std::size_t>(std::max(settings_.max_depth, settings_.size));
  for (query.size = static_cast<std::size_t>(settings_.size);; query.size = std::min(2 * query.size, most)) {
    co_await set_phase(RequestPhase::kRecall);
    FRESHET_CO_TRY(recalled, co_await recall_.search(query));
    co_await set_phase(RequestPhase::kRank);
    const bool exhausted = recalled->exhausted;
    std::vector<ItemId> candidates = ids_of(std::move(*recalled));
    if (cold) candidates = in_turns(std::move(candidates), hot);
    FRESHET_CO_TRY(left, co_await without_seen(request.reader, opening, std::move(candidates)));
    out.items = std::move(*left);
    out.exhausted = exhausted;
    const std::size_t enough =
        std::max(request.limit, static_cast<std::size_t>(settings_.size) / kWantedShare);
    if (out.exhausted || out.items.size() >= enough || query.size >= most || Clock::now() >= deadline)
      co_return out;
  }
}

Task<Result<std::vector<ItemId>>> SmartFeed::without_seen(const ReaderId& reader, const Opening& opening,
                                                          std::vector<ItemId> out) {
  std::unordered_set<std::string_view> handed_out;
  for (const ItemId& each : opening.handed_out) handed_out.insert(each.view());
  if (!handed_out.empty())
    std::erase_if(out, [&](const ItemId& item) { return handed_out.contains(item.view()); });
  FRESHET_CO_TRY(seen, co_await store_.seen(reader, opening.seen, out));
  std::size_t kept = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if ((*seen)[i]) continue;
    if (kept != i) out[kept] = std::move(out[i]);
    ++kept;
  }
  out.resize(kept);
  co_return out;
}

// --- a page on its way out

Task<Result<FeedPage>> SmartFeed::serve(const FeedRequest& request, Page page, bool recheck,
                                        std::shared_ptr<const SeenView> seen,
                                        std::vector<Interest> interests) {
  keep_named(request, interests);
  FeedPage out;
  std::vector<items::SharedCard> named;
  std::vector<Handout> handouts;
  for (int refills = 0;; ++refills) {
    handouts.push_back({page.handout_seq, page.items});
    FRESHET_CO_TRY(cards, co_await with_cards(page.items, interests));
    Result<std::vector<bool>> repeated(std::vector<bool>(page.items.size()));
    if (recheck && !page.replay) repeated = co_await store_.seen(request.reader, seen, page.items);
    if (!repeated) co_return tl::unexpected(repeated.error());
    out.items = showable(std::move(cards->items), *repeated, clock_());
    named = std::move(cards->named);
    const bool whole = out.items.size() == page.items.size();
    if (whole || page.replay || refills == kMostRefills) break;
    if (!page.buffered && request.request.empty()) break;  // nothing to fill up with, nothing to correct
    page.items = ids_of(out.items);
    FRESHET_CO_TRY(refilled, co_await store_.refill(request, page));
    page = std::move(refilled->page);
    recheck = refilled->noted;
    seen = std::move(refilled->seen);
  }
  out.generation = page.generation;
  out.sequence = page.sequence;
  out.exhausted = page.exhausted;
  if (page.replay && !page.acknowledged) {
    const std::vector<ItemId> wished = ids_of(out.items);
    FRESHET_CO_TRY(allowed, co_await store_.show_again(request, wished));
    const IdSet may(allowed->begin(), allowed->end());
    std::erase_if(out.items, [&](const FeedItem& item) { return !may.contains(item.id); });
  }
  const std::vector<ItemId> shown = ids_of(out.items);
  give_reasons(request, interests, named, out.items);
  if (!page.replay) {
    if (shown_) shown_(shown);
    record(request.reader, {std::move(handouts), shown, clock_(), false, false});
  }
  co_return out;
}

Task<Result<SmartFeed::Cards>> SmartFeed::with_cards(const std::vector<ItemId>& items,
                                                     const std::vector<Interest>& interests) {
  std::vector<ItemId> both;
  if (!interests.empty()) both = items;
  for (const Interest& each : interests) both.push_back(each.item);
  const std::vector<ItemId>& wanted = interests.empty() ? items : both;
  FRESHET_CO_TRY(cards, co_await cards_.get(wanted));
  Cards out;
  out.items.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) out.items.push_back({items[i], std::move((*cards)[i]), {}});
  out.named.assign(cards->begin() + static_cast<std::ptrdiff_t>(items.size()), cards->end());
  co_return out;
}

void SmartFeed::give_reasons(const FeedRequest& request, const std::vector<Interest>& interests,
                             const std::vector<items::SharedCard>& named,
                             std::vector<FeedItem>& items) const {
  const FeedReasons reasons(interests, named, trending_, clock_());
  for (FeedItem& each : items) {
    if (request.query.empty())
      each.reason = reasons.reason(each.id, *each.card);
    else
      each.reason.kind = readers::Reason::Kind::kQuery;
  }
}

// Events may name items that were never put; a page has nothing to show of those.
Task<Result<std::vector<ItemId>>> SmartFeed::known_of(const std::vector<ItemId>& hot) {
  const std::vector<Interest> none;
  FRESHET_CO_TRY(cards, co_await with_cards(hot, none));
  const UnixSeconds now = clock_();
  std::erase_if(cards->items,
                [&](const FeedItem& item) { return !item.card->known || item.card->is_hidden_at(now); });
  co_return ids_of(cards->items);
}

// What fails still waits, and is recorded at a later request.
void SmartFeed::record(const ReaderId& reader, Impressions impressions) {
  const auto await = [](Task<Result<void>> task) -> Task<void> { co_await task; };
  ++recording_;
  spawn(await(store_.record(reader, std::move(impressions))), [this](std::exception_ptr) {
    if (--recording_ == 0 && recorded_) std::exchange(recorded_, nullptr)();
  });
}

void SmartFeed::when_recorded(std::function<void()> done) {
  if (recording_ == 0) return done();
  recorded_ = std::move(done);
}

void SmartFeed::record_lost(const ReaderId& reader, const std::vector<Unacknowledged>& lost) {
  for (const Unacknowledged& each : lost) {
    record(reader, {{each.handout}, each.handout.items, each.at, true, each.recorded});
  }
}

}  // namespace freshet::feed
