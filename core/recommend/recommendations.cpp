#include "core/recommend/recommendations.h"

#include <algorithm>
#include <utility>

#include "core/items/card_json.h"
#include "core/recommend/reason_builder.h"
#include "core/recommend/similar_mix.h"

namespace freshet::recommend {
namespace {

// Maximum number of times a page is selected again because some of its items are hidden.
constexpr int kMaxPageRounds = 4;
// Extra cards loaded with a page, to replace hidden items.
constexpr std::size_t kSpareItems = 5;
// Number of cards loaded together while filling a page. If none of them can be shown, Redis has
// lost its items.
constexpr std::size_t kFillChunk = 100;

// The reader's interactions and views, newest first, without events of dismissed items.
Profile build_profile(const readers::ReaderState& state) {
  Profile out;
  out.archived = state.archived;
  std::unordered_set<std::string_view> dismissed;
  for (const readers::ViewedItem& each : state.dismissals) {
    dismissed.insert(each.item.view());
    out.dismissed.push_back(each.item);
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
  std::stable_sort(
      events.begin(), events.end(),
      [](const readers::InteractionRecord& a, const readers::InteractionRecord& b) { return a.at > b.at; });
  return out;
}

// Matches all visible items, those similar to the reader's events first.
feed::RecallQuery index_query(const readers::ReaderState& state, UnixSeconds now) {
  feed::RecallQuery query;
  query.now = now;
  for (const readers::InteractionRecord& each : build_profile(state).events)
    query.interests.push_back({each.item, 1});
  return query;
}

// Returns the recalled items that are new to `seen` and eligible. Adds all of them to `seen`.
std::vector<const feed::Candidate*> new_eligible(const feed::RecallResult& recalled,
                                                 const Selection& selection,
                                                 std::unordered_set<ItemId>& seen) {
  std::vector<const feed::Candidate*> out;
  for (const feed::Candidate& each : recalled.candidates) {
    const bool is_new = seen.insert(each.item).second;
    if (is_new && selection.eligibility(each.item.view()) == Eligibility::kEligible) out.push_back(&each);
  }
  return out;
}

// Returns the lowest trend on a page ordered by trend alone; 0 if there are not enough candidates.
double page_min_trend(const Selection& selection, std::size_t limit) {
  std::vector<double> trends;
  for (const SelectionCandidate& each : selection.candidates()) {
    if (each.eligibility == Eligibility::kEligible) trends.push_back(each.ranked->trend);
  }
  if (limit == 0 || trends.size() <= limit) return 0;
  const auto last = trends.begin() + static_cast<std::ptrdiff_t>(limit - 1);
  std::nth_element(trends.begin(), last, trends.end(), std::greater<>());
  return *last;
}

// A selected page, and the cards it needs.
struct PageDraft {
  std::vector<ItemId> card_ids;  // the selected items in order, then the attributed ones
  std::vector<std::optional<Attribution>> attributions;  // by selected item
  std::vector<std::size_t> attribution_cards;            // index in `card_ids` of each attributed item
};

PageDraft draft_page(const CandidateSet& candidates, const Selection& selection,
                     const std::vector<std::size_t>& selected) {
  PageDraft page;
  std::vector<std::uint32_t> indexes;
  for (const std::size_t each : selected) {
    const std::uint32_t item = selection.candidates()[each].ranked->item;
    indexes.push_back(item);
    page.card_ids.push_back(ItemId::trusted(std::string(candidates.id(item))));
  }
  page.attributions = candidates.find_attributions(indexes);
  for (const auto& each : page.attributions) {
    const auto at =
        each ? std::find(page.card_ids.begin(), page.card_ids.end(), each->item) : page.card_ids.end();
    page.attribution_cards.push_back(static_cast<std::size_t>(at - page.card_ids.begin()));
    if (each && at == page.card_ids.end()) page.card_ids.push_back(each->item);
  }
  return page;
}

readers::Reason reason_of(SimilarItem::Source source) {
  readers::Reason out;
  out.kind = source == SimilarItem::Source::kCovisits  ? readers::Reason::Kind::kAlsoRead
             : source == SimilarItem::Source::kContent ? readers::Reason::Kind::kSimilar
                                                       : readers::Reason::Kind::kRising;
  return out;
}

// A card made from the model's metadata, for use without Redis.
items::SharedCard card_from(const ItemMetadata& metadata) {
  auto card = std::make_shared<items::ItemCard>();
  card->known = true;
  card->title = std::string(metadata.title);
  card->author = std::string(metadata.author);
  card->author_id = std::string(metadata.author_id);
  card->tags.assign(metadata.tags.begin(), metadata.tags.end());
  card->update_time = metadata.published.time_since_epoch().count();
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
      selection_(SelectionSettings::from(settings)),
      clock_(std::move(clock)) {}

// A page that is loaded again must not make its items look unwanted.
void Recommendations::report_impressions(const ReaderId& reader, const RecommendPage& page) {
  if (!impression_observer_ || reader.empty()) return;
  const std::int64_t day = unix_s(clock_()) / 86400;
  if (std::exchange(shown_day_, day) != day || shown_.size() > kMaxShown) shown_.clear();
  std::vector<ItemId> shown;
  for (const Recommendation& each : page.items) {
    const std::size_t hash = std::hash<std::string>()(reader.str() + kIdSeparator + each.id.str());
    if (shown_.insert(hash).second) shown.push_back(each.id);
  }
  if (!shown.empty()) impression_observer_(shown);
}

Task<Result<RecommendPage>> Recommendations::page(const RecommendRequest& request) {
  auto trace = co_await explain(request);
  if (trace) report_impressions(request.reader, (*trace)->page);
  if (trace) co_return std::move((*trace)->page);
  if (!is_unavailable(trace.error())) co_return tl::unexpected(trace.error());
  co_return fallback_page(request);
}

Task<Result<std::unique_ptr<RankingTrace>>> Recommendations::explain(const RecommendRequest& request) {
  auto out = std::make_unique<RankingTrace>();
  if (!request.reader.empty()) {
    FRESHET_CO_TRY(state, co_await readers_.read(request.reader));
    out->state = std::move(*state);
  }
  out->at = clock_();
  Profile profile = build_profile(out->state);
  if (!request.reader.empty()) profile.reader = std::hash<std::string_view>()(request.reader.view());
  co_await set_phase(RequestPhase::kRank);
  FRESHET_CO_TRY(candidates, co_await recommender_.find_candidates(std::move(profile), out->at));
  out->candidates = std::move(*candidates);
  out->selection = std::make_unique<Selection>(*out->candidates, out->state, request.exclude, selection_,
                                               out->at, request.reader);
  FRESHET_CO_TRY(items, co_await select_page(*out, request.limit, out->not_visible));
  out->page = {std::move(*items), out->selection->excluded(), recommender_.model_name(), std::nullopt};
  if (out->page.items.size() < request.limit) {
    FRESHET_CO_TRY(filled, co_await fill_from_index(*out, request));
  }
  co_return out;
}

// Called when every candidate that may be shown is on the page. Searches the index deeper and
// deeper for visible items that were not candidates.
Task<Result<void>> Recommendations::fill_from_index(RankingTrace& trace, const RecommendRequest& request) {
  const std::size_t limit = request.limit;
  std::unordered_set<ItemId> seen;
  for (const RankedCandidate& each : trace.candidates->candidates())
    seen.insert(ItemId::trusted(std::string(trace.candidates->id(each.item))));
  feed::RecallQuery query = index_query(trace.state, trace.at);
  query.cost = request.cost;
  for (query.size = seen.size() + limit;; query.size *= 2) {
    co_await set_phase(RequestPhase::kRecall);
    const auto recalled = co_await recall_.search(query);
    if (!recalled) {  // the page stays short
      trace.page.degraded = Dependency::kIndex;
      co_return Result<void>();
    }
    co_await set_phase(RequestPhase::kRank);
    const auto eligible = new_eligible(*recalled, *trace.selection, seen);
    FRESHET_CO_TRY(more, co_await append_recalled(trace, eligible, limit));
    if (!*more || recalled->exhausted) co_return Result<void>();
  }
}

// Returns false if the page is full or Redis has lost its items.
Task<Result<bool>> Recommendations::append_recalled(RankingTrace& trace,
                                                    const std::vector<const feed::Candidate*>& eligible,
                                                    std::size_t limit) {
  std::vector<Recommendation>& page = trace.page.items;
  const ReasonBuilder reasons(*trace.candidates, trace.state, trace.at);
  for (std::size_t from = 0; from < eligible.size(); from += kFillChunk) {
    const std::size_t end = std::min(from + kFillChunk, eligible.size());
    std::vector<ItemId> chunk;
    for (std::size_t i = from; i < end; ++i) chunk.push_back(eligible[i]->item);
    FRESHET_CO_TRY(cards, co_await cards_.get(chunk));
    const std::size_t size_before = page.size();
    for (std::size_t i = 0; i < chunk.size() && page.size() < limit; ++i) {
      const items::SharedCard& card = (*cards)[i];
      if (!card->known || card->is_hidden_at(trace.at)) continue;
      if (trace.selection->is_own(card->author_id, card->author)) continue;
      page.push_back({chunk[i], card, 0, reasons.recalled_reason(*eligible[from + i], *card)});
    }
    if (page.size() == limit || (page.size() == size_before && chunk.size() == kFillChunk)) co_return false;
  }
  co_return true;
}

// Repeats the selection until every selected item can be shown, each round without the items found
// hidden before. The cards needed for reasons are loaded with those of the page.
Task<Result<std::vector<Recommendation>>> Recommendations::select_page(
    const RankingTrace& trace, std::size_t limit, std::unordered_set<std::string>& excluded) {
  const Selection& selection = *trace.selection;
  const ReasonBuilder reasons(*trace.candidates, trace.state, trace.at, page_min_trend(selection, limit));
  std::vector<Recommendation> out;
  for (int round = 0; round < kMaxPageRounds; ++round) {
    const std::vector<std::size_t> selected =
        selection.select(limit + kSpareItems, [&](const SelectionCandidate& each) {
          return excluded.empty() || !excluded.contains(std::string(selection.id(each)));
        });
    const PageDraft page = draft_page(*trace.candidates, selection, selected);
    FRESHET_CO_TRY(cards, co_await cards_.get(page.card_ids));
    // If Redis lost all its items, ids are better than an empty page (`freshetctl rebuild-redis`
    // restores them).
    const bool none_known =
        std::none_of(cards->begin(), cards->begin() + static_cast<std::ptrdiff_t>(selected.size()),
                     [](const items::SharedCard& card) { return card->known; });
    out.clear();
    for (std::size_t i = 0; i < selected.size(); ++i) {
      const SelectionCandidate& candidate = selection.candidates()[selected[i]];
      const items::SharedCard& card = (*cards)[i];
      if (card->is_hidden_at(trace.at) || (!card->known && !none_known)) {
        excluded.insert(page.card_ids[i].str());
      } else if (out.size() < limit) {
        const items::ItemCard* attributed_card =
            page.attributions[i] ? (*cards)[page.attribution_cards[i]].get() : nullptr;
        out.push_back({page.card_ids[i], card, candidate.score(),
                       reasons.reason(*candidate.ranked, page.attributions[i], attributed_card)});
      }
    }
    if (out.size() == limit || selected.size() < limit + kSpareItems) break;
  }
  co_return out;
}

// --- Without Redis

RecommendPage Recommendations::fallback_page(const RecommendRequest& request) {
  RecommendPage page;
  page.degraded = Dependency::kRedis;
  page.model = recommender_.model_name();
  const auto candidates = recommender_.find_stale_candidates({}, clock_());
  if (!candidates) return page;  // nothing was ever loaded
  const readers::ReaderState anonymous;
  const Selection selection(*candidates, anonymous, ExclusionMode::kOff, selection_, clock_(),
                            request.reader);
  const auto selected = selection.select(request.limit, [](const SelectionCandidate&) { return true; });
  for (const std::size_t each : selected) {
    const SelectionCandidate& candidate = selection.candidates()[each];
    page.items.push_back({ItemId::trusted(std::string(selection.id(candidate))),
                          card_from(candidates->metadata(candidate.ranked->item)),
                          candidate.score(),
                          {}});
    if (candidate.ranked->points <= 0) page.items.back().reason.kind = readers::Reason::Kind::kNew;
  }
  return page;
}

// --- Similar items

Task<Result<SimilarPage>> Recommendations::similar(const ItemId& item, const ReaderId& reader,
                                                   std::size_t limit, feed::SearchCost cost) {
  SimilarPage page;
  Result<std::unordered_set<ItemId>> dismissed;
  if (!reader.empty()) dismissed = co_await readers_.dismissed_items(reader);
  const bool knows_dismissed = dismissed.has_value();
  if (!knows_dismissed && !is_unavailable(dismissed.error())) co_return tl::unexpected(dismissed.error());
  const std::size_t spare = kSpareItems + (knows_dismissed ? dismissed->size() : 0);
  FRESHET_CO_TRY(found, co_await find_related(item, limit + spare, std::move(cost), page));
  if (knows_dismissed)
    std::erase_if(*found, [&](const SimilarItem& each) { return dismissed->contains(each.item); });
  std::vector<ItemId> ids(1, item);
  for (const SimilarItem& each : *found) ids.push_back(each.item);
  auto cards = co_await cards_.get(ids);
  if (!cards && is_unavailable(cards.error())) {
    add_from_stale_snapshot(*found, limit, page);
    co_return page;
  }
  if (!cards) co_return tl::unexpected(cards.error());
  const UnixSeconds now = clock_();
  const bool has_related = std::ranges::any_of(
      *found, [](const SimilarItem& each) { return each.source != SimilarItem::Source::kTrend; });
  if (cards->front()->is_hidden_at(now) || (!cards->front()->known && !has_related))
    co_return fail(ErrorCode::kNotFound, "unknown_item", "id");
  for (std::size_t i = 1; i < ids.size() && page.items.size() < limit; ++i) {
    const items::SharedCard& card = (*cards)[i];
    if (card->known && !card->is_hidden_at(now))
      page.items.push_back({ids[i], card, (*found)[i - 1].score, reason_of((*found)[i - 1].source)});
  }
  co_return page;
}

void Recommendations::add_from_stale_snapshot(const std::vector<SimilarItem>& found, std::size_t limit,
                                              SimilarPage& page) {
  page.degraded = Dependency::kRedis;
  const UnixSeconds now = clock_();
  const auto candidates = recommender_.find_stale_candidates({}, now);
  if (!candidates) return;  // no metadata available
  for (const SimilarItem& each : found) {
    const auto index = candidates->find(each.item.view());
    if (!index || page.items.size() == limit) continue;
    const ItemMetadata metadata = candidates->metadata(*index);
    if (metadata.published <= now)
      page.items.push_back({each.item, card_from(metadata), each.score, reason_of(each.source)});
  }
}

// If Redis is unavailable, the items of similar content are left.
Task<Result<std::vector<SimilarItem>>> Recommendations::find_related(const ItemId& item, std::size_t limit,
                                                                     feed::SearchCost cost,
                                                                     SimilarPage& page) {
  const UnixSeconds now = clock_();
  auto covisits = co_await recommender_.covisits(item, now);
  if (!covisits && !is_unavailable(covisits.error())) co_return tl::unexpected(covisits.error());
  FRESHET_CO_TRY(content, co_await find_similar_content(item, limit, std::move(cost), page));
  SimilarSources sources;
  if (covisits) sources.covisits = std::move(*covisits);
  sources.content = std::move(*content);
  if (covisits && (!sources.covisits.empty() || sources.content.empty())) {
    auto trend = co_await recommender_.trending(now);
    if (!trend && !is_unavailable(trend.error())) co_return tl::unexpected(trend.error());
    if (trend) sources.trend = std::move(*trend);
  }
  co_return mix_similar(sources, item, limit);
}

Task<Result<std::vector<SimilarItem>>> Recommendations::find_similar_content(const ItemId& item,
                                                                             std::size_t limit,
                                                                             feed::SearchCost cost,
                                                                             SimilarPage& page) {
  auto known = recommender_.similar(item, limit);
  if (known && !known->empty()) {
    page.model = recommender_.model_name();
    co_return std::move(*known);
  }
  page.model = "search";
  feed::RecallQuery query;
  query.interests.push_back({item, 1});
  query.cost = std::move(cost);
  query.now = clock_();
  query.size = limit + 1;
  co_await set_phase(RequestPhase::kRecall);
  const auto recalled = co_await recall_.search(std::move(query));
  std::vector<SimilarItem> out;
  if (!recalled) page.degraded = Dependency::kIndex;
  if (!recalled) co_return out;
  for (const feed::Candidate& each : recalled->candidates) {
    if (each.score > 0 && each.item != item && out.size() < limit) out.push_back({each.item, each.score});
  }
  co_return out;
}

}  // namespace freshet::recommend
