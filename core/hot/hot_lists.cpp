#include "core/hot/hot_lists.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/hex.h"
#include "core/base/json.h"
#include "core/hot/current_top.h"

namespace freshet::hot {

namespace {

// Tags come from requests, so the number of snapshots must have an end.
constexpr std::size_t kMaxSnapshots = 256;

}  // namespace

// While one lives its snapshot is being refreshed; at the end, however it came, those who waited go
// on.
class HotLists::Refreshing {
 public:
  explicit Refreshing(Snapshot& snapshot) : snapshot_(snapshot) { snapshot_.refreshing = true; }
  Refreshing(const Refreshing&) = delete;
  Refreshing& operator=(const Refreshing&) = delete;
  ~Refreshing() {
    snapshot_.refreshing = false;
    for (AsyncEvent<int>* waiter : std::exchange(snapshot_.waiting, {})) waiter->fire(0);
  }

 private:
  Snapshot& snapshot_;
};

HotList::HotList(std::string json) : json_(std::move(json)), hash_(XXH3_64bits(json_.data(), json_.size())) {
  // "[" element ",\n" element … "]": a newline inside a string would be escaped.
  std::size_t from = 0;
  for (std::size_t at = json_.find(",\n"); at != std::string::npos; at = json_.find(",\n", from)) {
    ends_.push_back(at);
    from = at + 2;
  }
  if (json_.size() > 2) ends_.push_back(json_.size() - 1);
}

std::string HotList::first(std::size_t limit) const {
  if (ends_.empty() || limit == 0) return "[]";
  if (limit >= ends_.size()) return json_;
  std::string part;
  part.reserve(ends_[limit - 1] + 1);
  part.append(json_, 0, ends_[limit - 1]).push_back(']');
  return part;
}

std::string HotList::etag(std::size_t limit) const {
  std::string tag = "\"";
  for (int shift = 56; shift >= 0; shift -= 8) append_hex(tag, static_cast<unsigned char>(hash_ >> shift));
  return tag.append("-").append(std::to_string(limit)).append("\"");
}

std::string render(const std::vector<ShownItem>& items, UnixSeconds at) {
  const auto minute = std::chrono::floor<std::chrono::minutes>(at);
  std::string json = "[";
  for (const ShownItem& shown : items) {
    if (json.size() > 1) json.append(",\n");
    json::Writer writer(json);
    writer.begin_object().key("id").string(shown.item.view()).key("score").number(shown.score);
    if (shown.card && shown.card->known) {
      const items::ItemCard& card = *shown.card;
      writer.key("title").string(card.title);
      if (!card.url.empty()) writer.key("url").string(card.url);
      if (!card.author.empty()) writer.key("author").string(card.author);
      if (!card.tags.empty()) {
        writer.key("tags").begin_array();
        for (const std::string& tag : card.tags) writer.string(tag);
        writer.end_array();
      }
      writer.key("published_at").integer(card.shown_from.time_since_epoch().count());
      writer.key("age").integer(std::max(seconds(0), seconds(minute - card.shown_from)).count());
    }
    writer.end_object();
  }
  json.push_back(']');
  return json;
}

HotLists::HotLists(HotStore& hot, items::CardCache& cards, const Settings& settings)
    : hot_(hot), cards_(cards), settings_(settings) {}

Task<Result<ServedList>> HotLists::get(const ListQuery& query, Clock::time_point now) {
  for (;;) {
    const auto found = snapshots_.find(query);
    if (found == snapshots_.end()) break;
    Snapshot& snapshot = found->second;
    const bool fresh = snapshot.refreshing || now < snapshot.until;
    if (snapshot.list && snapshot.usable && fresh) {
      ++counters_.hits;
      co_return ServedList{snapshot.list, false};
    }
    if (!snapshot.refreshing) break;
    AsyncEvent<int> refreshed;
    snapshot.waiting.push_back(&refreshed);
    co_await refreshed.wait();
  }
  ++counters_.misses;
  auto refreshing = refresh(query, now);
  auto served = co_await refreshing;
  co_return served;
}

std::shared_ptr<const HotList> HotLists::last_copy(const ListQuery& query) const {
  const auto found = snapshots_.find(query);
  return found != snapshots_.end() && found->second.usable ? found->second.list : nullptr;
}

Task<Result<ServedList>> HotLists::refresh(const ListQuery& query, Clock::time_point now) {
  make_room();
  const std::uint64_t generation = generation_;
  const Refreshing refreshing(snapshots_[query]);
  auto cached = co_await hot_.cached_list(query);
  if (!cached) co_return fall_back(query, cached.error());
  if (cached->state != CachedList::State::kBuild && !cached->json.empty()) {
    co_return ServedList{keep(query, std::move(cached->json), now, cached->due, generation), false};
  }
  auto built = co_await build(query, wall_now());
  if (!built) co_return fall_back(query, built.error());
  // The tag of a request may be any word: an empty list of one is not worth a key.
  const bool worth_keeping = built->size() > 2 || query.tag.empty();
  if (cached->state == CachedList::State::kBuild && worth_keeping) {
    cached->json = *built;
    hot_.store_list(query, *cached);
  }
  co_return ServedList{keep(query, std::move(*built), now, cached->due, generation), false};
}

Result<ServedList> HotLists::fall_back(const ListQuery& query, const Error& error) const {
  if (error.code != ErrorCode::kUnavailable && error.code != ErrorCode::kUnknownOutcome)
    return tl::unexpected(error);
  const auto found = snapshots_.find(query);
  if (found != snapshots_.end() && found->second.list) return ServedList{found->second.list, true};
  return ServedList{std::make_shared<const HotList>("[]"), true};
}

std::shared_ptr<const HotList> HotLists::keep(const ListQuery& query, std::string json, Clock::time_point now,
                                              std::optional<milliseconds> due, std::uint64_t generation) {
  auto list = std::make_shared<const HotList>(std::move(json));
  Snapshot& snapshot = snapshots_[query];
  snapshot.list = list;
  snapshot.taken = now;
  snapshot.until = now + std::min(settings_.list.worker_ttl, due.value_or(settings_.list.worker_ttl));
  snapshot.usable = generation == generation_;
  return list;
}

void HotLists::make_room() {
  if (snapshots_.size() < kMaxSnapshots) return;
  auto oldest = snapshots_.end();
  for (auto it = snapshots_.begin(); it != snapshots_.end(); ++it) {
    if (it->second.refreshing) continue;
    if (oldest == snapshots_.end() || it->second.taken < oldest->second.taken) oldest = it;
  }
  if (oldest != snapshots_.end()) snapshots_.erase(oldest);
}

void HotLists::drop(bool lost) {
  if (!lost) ++generation_;
  for (auto& [query, snapshot] : snapshots_) {
    snapshot.taken = snapshot.until = {};
    if (!lost) snapshot.usable = false;
  }
}

Task<Result<ServedList>> HotLists::at(const ListQuery& query, UnixSeconds at) {
  auto built = co_await build(query, at);
  if (!built) co_return fall_back(query, built.error());
  co_return ServedList{std::make_shared<const HotList>(std::move(*built)), false};
}

// --- building: gather → load → score → cut

Task<Result<std::string>> HotLists::build(const ListQuery& query, UnixSeconds at) {
  const bool is_current = query.mode == ViewsMode::kCurrent;
  auto ranking = is_current ? current(query, at) : walk(query);
  FRESHET_CO_TRY(scored, co_await ranking);
  std::vector<ItemId> ids;
  ids.reserve(scored->size());
  for (const ScoredItem& item : *scored) ids.push_back(item.item);
  FRESHET_CO_TRY(cards, co_await cards_.of(ids));
  std::vector<ShownItem> shown;
  shown.reserve(scored->size());
  for (std::size_t i = 0; i < scored->size(); ++i) {
    const ScoredItem& item = (*scored)[i];
    const double score = score_at(*query.model, item.score, at, settings_);
    // Keys made with another half-life, which a reload has just changed: until the rank is rebuilt,
    // what there was before.
    if (!std::isfinite(score)) co_return fail(ErrorCode::kUnavailable, "rank_changing");
    shown.push_back({item.item, score, std::move((*cards)[i])});
  }
  co_return render(shown, at);
}

Task<Result<std::vector<ScoredItem>>> HotLists::walk(const ListQuery& query) {
  std::vector<ScoredItem> best;
  std::set<std::string, std::less<>> seen;  // the rank may move between two pages
  std::optional<RankPlace> from = RankPlace();
  const auto deadline = Clock::now() + settings_.gateway.request_budget;
  while (from && best.size() < kLongestList) {
    if (Clock::now() > deadline) co_return fail(ErrorCode::kUnavailable, "budget");
    FRESHET_CO_TRY(page, co_await hot_.rank_page(query, std::move(*from), std::int64_t{kLongestList}));
    for (ScoredItem& item : page->items) {
      if (best.size() < kLongestList && seen.insert(item.item.str()).second) best.push_back(std::move(item));
    }
    from = std::move(page->next);
  }
  co_return best;
}

}  // namespace freshet::hot
