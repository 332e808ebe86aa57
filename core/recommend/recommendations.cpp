#include "core/recommend/recommendations.h"

#include <algorithm>

#include "core/items/card_json.h"
#include "core/recommend/reasons.h"

namespace freshet::recommend {
namespace {

// Pages are picked anew so often at most when some of their items turn out to be hidden.
constexpr int kPageRounds = 4;
// Titles are asked for a few items beyond the page, for what is hidden among them.
constexpr std::size_t kSpare = 5;
// Titles asked for together while a page is filled up. Of so many some can be shown, or Redis has
// lost its items.
constexpr std::size_t kFillChunk = 100;

// What the reader did and saw, newest first, without what they dismissed: of an item that was
// dismissed nothing more is wanted.
Profile profile_of(const readers::ReaderState& state) {
  Profile out;
  out.earlier = state.archived;
  std::unordered_set<std::string_view> dismissed;
  for (const readers::ViewedItem& each : state.dismissals) {
    dismissed.insert(each.item.view());
    out.unwanted.push_back(each.item);
  }
  std::vector<readers::InteractionRecord>& events = out.events;
  events.reserve(state.interactions.size() + state.topic_views.size());
  for (const readers::InteractionRecord& each : state.interactions) {
    if (!dismissed.contains(each.item.view())) events.push_back(each);
  }
  for (const readers::ViewedItem& each : state.topic_views) {
    if (!dismissed.contains(each.item.view()))
      events.push_back({each.item, readers::Interaction::kView, each.at});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const readers::InteractionRecord& a, const readers::InteractionRecord& b) { return a.at > b.at; });
  return out;
}

// Whatever is visible, what is like the reader's events first.
feed::RecallQuery whole_index(const readers::ReaderState& state, UnixSeconds now) {
  feed::RecallQuery query;
  query.now = now;
  for (const readers::InteractionRecord& each : profile_of(state).events) query.interests.push_back({each.item, 1});
  return query;
}

// What is new among those recalled, and may be shown to the reader.
std::vector<const feed::Candidate*> left_of(const feed::RecallResult& recalled, const Selection& selection,
                                            std::unordered_set<ItemId>& looked_at) {
  std::vector<const feed::Candidate*> out;
  for (const feed::Candidate& each : recalled.candidates) {
    const bool is_new = looked_at.insert(each.item).second;
    if (is_new && selection.verdict(each.item.view()) == Verdict::kEligible) out.push_back(&each);
  }
  return out;
}

// The least trend on a page of what trends most; 0 when there is not so much.
double trend_of_page(const Selection& selection, std::size_t limit) {
  std::vector<double> trends;
  for (const Choice& each : selection.choices()) {
    if (each.verdict == Verdict::kEligible) trends.push_back(each.ranked->trend);
  }
  if (limit == 0 || trends.size() <= limit) return 0;
  const auto last = trends.begin() + static_cast<std::ptrdiff_t>(limit - 1);
  std::nth_element(trends.begin(), last, trends.end(), std::greater<>());
  return *last;
}

// What was picked, and the items whose cards are wanted for it.
struct Picked {
  std::vector<ItemId> wanted;                   // those picked, in order, then those that speak for them
  std::vector<std::optional<Because>> because;  // of each picked
  std::vector<std::size_t> named;               // where in `wanted` the item of `because` stands
};

Picked picked_of(const Suggestions& suggestions, const Selection& selection,
                 const std::vector<std::size_t>& picked) {
  Picked page;
  std::vector<std::uint32_t> indexes;
  for (const std::size_t each : picked) {
    const std::uint32_t item = selection.choices()[each].ranked->item;
    indexes.push_back(item);
    page.wanted.push_back(ItemId::trusted(std::string(suggestions.id(item))));
  }
  page.because = suggestions.because(indexes);
  for (const auto& each : page.because) {
    const auto at = each ? std::find(page.wanted.begin(), page.wanted.end(), each->item) : page.wanted.end();
    page.named.push_back(static_cast<std::size_t>(at - page.wanted.begin()));
    if (each && at == page.wanted.end()) page.wanted.push_back(each->item);
  }
  return page;
}

// What a page shows of an item without Redis.
items::SharedCard card_from(const Facts& facts) {
  auto card = std::make_shared<items::ItemCard>();
  card->known = true;
  card->title = std::string(facts.title);
  card->author = std::string(facts.author);
  card->tags.assign(facts.tags.begin(), facts.tags.end());
  card->update_time = facts.published.time_since_epoch().count();
  card->json = items::to_json(*card);
  return card;
}

}  // namespace

Recommendations::Recommendations(readers::ReaderStore& readers, Recommender& recommender,
                                 items::CardCache& cards, feed::Recall& recall, const Settings& settings,
                                 WallClock clock)
    : readers_(readers),
      recommender_(recommender),
      cards_(cards),
      recall_(recall),
      selection_(SelectionSettings::of(settings)),
      clock_(std::move(clock)) {}

Task<Result<RecommendPage>> Recommendations::page(const RecommendRequest& request) {
  auto explained = co_await explain(request);
  if (explained) co_return std::move((*explained)->page);
  if (!is_unavailable(explained.error())) co_return tl::unexpected(explained.error());
  co_return without_redis(request);
}

Task<Result<std::unique_ptr<Explained>>> Recommendations::explain(const RecommendRequest& request) {
  auto out = std::make_unique<Explained>();
  if (!request.reader.empty()) {
    FRESHET_CO_TRY(state, co_await readers_.read(request.reader));
    out->state = std::move(*state);
  }
  out->at = clock_();
  Profile profile = profile_of(out->state);
  co_await set_phase(RequestPhase::kRank);
  FRESHET_CO_TRY(suggestions, co_await recommender_.suggest(std::move(profile), out->at));
  out->suggestions = std::move(*suggestions);
  out->selection =
      std::make_unique<Selection>(*out->suggestions, out->state, request.exclude, selection_, out->at);
  FRESHET_CO_TRY(items, co_await cut(*out, request.limit, out->unshowable));
  out->page = {std::move(*items), out->selection->excluded(), recommender_.model(), std::nullopt};
  if (out->page.items.size() < request.limit) {
    FRESHET_CO_TRY(filled, co_await fill_up(*out, request));
  }
  co_return out;
}

// Every candidate that may be shown is on the page: the index has all that is visible, and is
// searched deeper and deeper for what is not.
Task<Result<void>> Recommendations::fill_up(Explained& explained, const RecommendRequest& request) {
  const std::size_t limit = request.limit;
  std::unordered_set<ItemId> looked_at;
  for (const Ranked& each : explained.suggestions->all())
    looked_at.insert(ItemId::trusted(std::string(explained.suggestions->id(each.item))));
  feed::RecallQuery query = whole_index(explained.state, explained.at);
  query.cost = request.cost;
  for (query.size = looked_at.size() + limit;; query.size *= 2) {
    co_await set_phase(RequestPhase::kRecall);
    const auto recalled = co_await recall_.search(query);
    if (!recalled) {  // the page stays as it is
      explained.page.degraded = Dependency::kIndex;
      co_return Result<void>();
    }
    co_await set_phase(RequestPhase::kRank);
    const auto left = left_of(*recalled, *explained.selection, looked_at);
    FRESHET_CO_TRY(more, co_await append(explained, left, limit));
    if (!*more || recalled->exhausted) co_return Result<void>();
  }
}

// False: the page is full, or Redis has lost its items.
Task<Result<bool>> Recommendations::append(Explained& explained,
                                           const std::vector<const feed::Candidate*>& left,
                                           std::size_t limit) {
  std::vector<Recommendation>& page = explained.page.items;
  const ReasonMaker reasons(*explained.suggestions, explained.state, explained.at);
  for (std::size_t from = 0; from < left.size(); from += kFillChunk) {
    const std::size_t end = std::min(from + kFillChunk, left.size());
    std::vector<ItemId> chunk;
    for (std::size_t i = from; i < end; ++i) chunk.push_back(left[i]->item);
    FRESHET_CO_TRY(cards, co_await cards_.get(chunk));
    const std::size_t before = page.size();
    for (std::size_t i = 0; i < chunk.size() && page.size() < limit; ++i) {
      const items::SharedCard& card = (*cards)[i];
      if (!card->known || card->is_hidden_at(explained.at)) continue;
      page.push_back({chunk[i], card, 0, reasons.of_recalled(*left[from + i], *card)});
    }
    if (page.size() == limit || (page.size() == before && chunk.size() == kFillChunk)) co_return false;
  }
  co_return true;
}

// Picks until everything picked can be shown: each round leaves out what the one before found
// hidden. The cards of what reasons will name come with those of the page.
Task<Result<std::vector<Recommendation>>> Recommendations::cut(const Explained& explained, std::size_t limit,
                                                               std::unordered_set<std::string>& unwanted) {
  const Selection& selection = *explained.selection;
  const ReasonMaker reasons(*explained.suggestions, explained.state, explained.at,
                            trend_of_page(selection, limit));
  std::vector<Recommendation> out;
  for (int round = 0; round < kPageRounds; ++round) {
    const std::vector<std::size_t> picked = selection.pick(limit + kSpare, [&](const Choice& each) {
      return unwanted.empty() || !unwanted.contains(std::string(selection.id(each)));
    });
    const Picked page = picked_of(*explained.suggestions, selection, picked);
    FRESHET_CO_TRY(cards, co_await cards_.get(page.wanted));
    // Redis lost its items (they come back by freshetctl rebuild-redis): ids are better
    // than nothing.
    const bool none_known =
        std::none_of(cards->begin(), cards->begin() + static_cast<std::ptrdiff_t>(picked.size()),
                     [](const items::SharedCard& card) { return card->known; });
    out.clear();
    for (std::size_t i = 0; i < picked.size(); ++i) {
      const Choice& choice = selection.choices()[picked[i]];
      const items::SharedCard& card = (*cards)[i];
      if (card->is_hidden_at(explained.at) || (!card->known && !none_known)) {
        unwanted.insert(page.wanted[i].str());
      } else if (out.size() < limit) {
        const items::ItemCard* named = page.because[i] ? (*cards)[page.named[i]].get() : nullptr;
        out.push_back(
            {page.wanted[i], card, choice.score(), reasons.reason(*choice.ranked, page.because[i], named)});
      }
    }
    if (out.size() == limit || picked.size() < limit + kSpare) break;
  }
  co_return out;
}

// --- without Redis

RecommendPage Recommendations::without_redis(const RecommendRequest& request) {
  RecommendPage page;
  page.degraded = Dependency::kRedis;
  page.model = recommender_.model();
  const auto suggestions = recommender_.suggest_stale({}, clock_());
  if (!suggestions) return page;  // there has never been anything to show
  const readers::ReaderState nobody;
  const Selection selection(*suggestions, nobody, Exclude::kOff, selection_, clock_());
  const auto picked = selection.pick(request.limit, [](const Choice&) { return true; });
  for (const std::size_t each : picked) {
    const Choice& choice = selection.choices()[each];
    page.items.push_back({ItemId::trusted(std::string(selection.id(choice))),
                          card_from(suggestions->facts(choice.ranked->item)),
                          choice.score(),
                          {}});
    if (choice.ranked->points <= 0) page.items.back().reason.kind = readers::Reason::Kind::kNew;
  }
  return page;
}

// --- similar items

Task<Result<SimilarPage>> Recommendations::similar(const ItemId& item, std::size_t limit,
                                                   feed::SearchCost cost) {
  SimilarPage page;
  FRESHET_CO_TRY(found, co_await related(item, limit + kSpare, std::move(cost), page));
  std::vector<ItemId> ids(1, item);
  for (const SimilarItem& each : *found) ids.push_back(each.item);
  auto cards = co_await cards_.get(ids);
  if (!cards && is_unavailable(cards.error())) {
    add_from_last_copy(*found, limit, page);
    co_return page;
  }
  if (!cards) co_return tl::unexpected(cards.error());
  const UnixSeconds now = clock_();
  if (cards->front()->is_hidden_at(now) || (!cards->front()->known && found->empty()))
    co_return fail(ErrorCode::kNotFound, "unknown_item", "id");
  for (std::size_t i = 1; i < ids.size() && page.items.size() < limit; ++i) {
    const items::SharedCard& card = (*cards)[i];
    if (card->known && !card->is_hidden_at(now)) page.items.push_back({ids[i], card, (*found)[i - 1].score, {}});
  }
  co_return page;
}

void Recommendations::add_from_last_copy(const std::vector<SimilarItem>& found, std::size_t limit,
                                         SimilarPage& page) {
  page.degraded = Dependency::kRedis;
  const UnixSeconds now = clock_();
  const auto suggestions = recommender_.suggest_stale({}, now);
  if (!suggestions) return;  // nothing is known of any item
  for (const SimilarItem& each : found) {
    const auto index = suggestions->find(each.item.view());
    if (!index || page.items.size() == limit) continue;
    const Facts facts = suggestions->facts(*index);
    if (facts.published <= now) page.items.push_back({each.item, card_from(facts), each.score, {}});
  }
}

Task<Result<std::vector<SimilarItem>>> Recommendations::related(const ItemId& item, std::size_t most,
                                                                feed::SearchCost cost, SimilarPage& page) {
  auto known = recommender_.similar(item, most);
  if (known && !known->empty()) {
    page.model = recommender_.model();
    co_return std::move(*known);
  }
  page.model = "search";
  feed::RecallQuery query;
  query.interests.push_back({item, 1});
  query.cost = std::move(cost);
  query.now = clock_();
  query.size = most + 1;
  co_await set_phase(RequestPhase::kRecall);
  const auto recalled = co_await recall_.search(std::move(query));
  std::vector<SimilarItem> out;
  if (!recalled) page.degraded = Dependency::kIndex;
  if (!recalled) co_return out;  // nothing is known to be like it
  for (const feed::Candidate& each : recalled->candidates) {
    if (each.score > 0 && each.item != item && out.size() < most) out.push_back({each.item, each.score});
  }
  co_return out;
}

}  // namespace freshet::recommend
