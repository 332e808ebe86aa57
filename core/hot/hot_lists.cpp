#include "core/hot/hot_lists.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/hex.h"
#include "core/base/json.h"
#include "core/hot/threshold_top_k.h"

namespace freshet::hot {

namespace {

// Tags come from requests, so the number of snapshots must be bounded.
constexpr std::size_t kMaxSnapshots = 256;

constexpr double kNoMaximum = std::numeric_limits<double>::infinity();

}  // namespace

// Marks a snapshot as being refreshed during its lifetime, and wakes the waiting requests however
// it ends.
class HotLists::RefreshGuard {
 public:
  explicit RefreshGuard(Snapshot& snapshot) : snapshot_(snapshot) { snapshot_.refreshing = true; }
  RefreshGuard(const RefreshGuard&) = delete;
  RefreshGuard& operator=(const RefreshGuard&) = delete;
  ~RefreshGuard() {
    snapshot_.refreshing = false;
    for (AsyncEvent<int>* waiter : std::exchange(snapshot_.waiters, {})) waiter->fire(0);
  }

 private:
  Snapshot& snapshot_;
};

HotList::HotList(std::string json, bool below_floor)
    : json_(std::move(json)), below_floor_(below_floor), hash_(XXH3_64bits(json_.data(), json_.size())) {
  // One element per line: "[" element ",\n" element … "]". A newline inside a string would be
  // escaped.
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
  std::string prefix;
  prefix.reserve(ends_[limit - 1] + 1);
  prefix.append(json_, 0, ends_[limit - 1]).push_back(']');
  return prefix;
}

std::string HotList::etag(std::size_t limit) const {
  std::string tag = "\"";
  for (int shift = 56; shift >= 0; shift -= 8) append_hex(tag, static_cast<unsigned char>(hash_ >> shift));
  return tag.append("-").append(std::to_string(limit)).append("\"");
}

std::string render(const std::vector<ListEntry>& items, UnixSeconds at) {
  const auto minute = std::chrono::floor<std::chrono::minutes>(at);
  std::string json = "[";
  for (const ListEntry& entry : items) {
    if (json.size() > 1) json.append(",\n");
    json::Writer writer(json);
    writer.begin_object().key("id").string(entry.item.view()).key("score").number(entry.score);
    if (entry.card && entry.card->known) {
      const items::ItemCard& card = *entry.card;
      writer.key("title").string(card.title);
      if (!card.url.empty()) writer.key("url").string(card.url);
      if (!card.author.empty()) writer.key("author").string(card.author);
      if (!card.tags.empty()) {
        writer.key("tags").begin_array();
        for (const std::string& tag : card.tags) writer.string(tag);
        writer.end_array();
      }
      writer.key("published_at").integer(card.visible_from.time_since_epoch().count());
      writer.key("age").integer(std::max(seconds(0), seconds(minute - card.visible_from)).count());
    }
    writer.end_object();
  }
  json.push_back(']');
  return json;
}

HotLists::HotLists(HotStore& hot, items::CardCache& cards, const Settings& settings,
                   std::function<bool()> is_memory_scarce)
    : hot_(hot), cards_(cards), settings_(settings), is_memory_scarce_(std::move(is_memory_scarce)) {}

Task<Result<ServedList>> HotLists::get(const ListQuery& query, Clock::time_point now) {
  for (;;) {
    const auto found = snapshots_.find(query);
    if (found == snapshots_.end()) break;
    Snapshot& snapshot = found->second;
    const bool fresh = snapshot.refreshing || now < snapshot.fresh_until;
    if (snapshot.list && snapshot.usable && fresh) {
      ++counters_.hits;
      co_return ServedList{snapshot.list, snapshot.retry_at != Clock::time_point{}};
    }
    if (!snapshot.refreshing && now < snapshot.retry_at) co_return degraded_copy(query);
    if (!snapshot.refreshing) break;
    AsyncEvent<int> refreshed;
    snapshot.waiters.push_back(&refreshed);
    co_await refreshed.wait();
  }
  ++counters_.misses;
  auto task = refresh(query, now);
  auto served = co_await task;
  co_return served;
}

std::shared_ptr<const HotList> HotLists::stale_copy(const ListQuery& query) const {
  const auto found = snapshots_.find(query);
  return found != snapshots_.end() && found->second.usable ? found->second.list : nullptr;
}

Task<Result<ServedList>> HotLists::refresh(const ListQuery& query, Clock::time_point now) {
  evict_snapshot();
  const std::uint64_t generation = generation_;
  const RefreshGuard refreshing(snapshots_[query]);
  auto cached = co_await hot_.cached_list(query);
  if (!cached) co_return co_await serve_stale(query, cached.error());
  if (cached->freshness != CachedList::Freshness::kMustBuild && !cached->json.empty()) {
    co_return ServedList{store_snapshot(query, std::move(*cached), now, generation), false};
  }
  if (cached->freshness == CachedList::Freshness::kTooSlow) {
    delay_retry(query, now, settings_.list.worker_ttl);
    co_return degraded_copy(query);
  }
  const bool has_lock = cached->freshness == CachedList::Freshness::kMustBuild;
  auto built = co_await build(query, wall_now());
  if (!built) {
    const bool is_over_budget = built.error().reason == kOverBudget;
    if (is_over_budget && has_lock) hot_.mark_list_slow(query);
    delay_retry(query, now, is_over_budget ? kSlowListTtl : settings_.list.worker_ttl);
    co_return co_await serve_stale(query, built.error());
  }
  cached->json = std::move(built->json);
  cached->below_floor = built->below_floor;
  // Requests may name any tag: an empty list of one is not worth a key, unless it took several
  // pages, as only those of tags with many items do.
  const bool worth_keeping = cached->json.size() > 2 || query.tag.empty() || built->has_pages;
  if (has_lock && worth_keeping && admit_to_redis(query, now)) hot_.store_list(query, *cached);
  co_return ServedList{store_snapshot(query, std::move(*cached), now, generation), false};
}

bool HotLists::admit_to_redis(const ListQuery& query, Clock::time_point now) {
  if (query.tag.empty() && query.window.count() == 0) return true;
  while (!filtered_stores_.empty() && filtered_stores_.front() + settings_.list.ttl <= now)
    filtered_stores_.pop_front();
  if (filtered_stores_.size() >= kMaxFilteredStores || is_memory_scarce_()) return false;
  filtered_stores_.push_back(now);
  return true;
}

ServedList HotLists::degraded_copy(const ListQuery& query) const {
  auto list = stale_copy(query);
  if (!list) list = std::make_shared<const HotList>("[]");
  return {std::move(list), true};
}

Task<Result<ServedList>> HotLists::serve_stale(const ListQuery& query, const Error& error) {
  if (error.reason == kOverBudget) co_return degraded_copy(query);
  if (error.code != ErrorCode::kUnavailable && error.code != ErrorCode::kUnknownOutcome)
    co_return tl::unexpected(error);
  if (error.reason == kRankRebuilding) {  // Redis responds
    const auto dropped = co_await drop_hidden_items(query);
    if (dropped) co_return degraded_copy(query);
  }
  const auto found = snapshots_.find(query);
  if (found != snapshots_.end() && found->second.list) co_return ServedList{found->second.list, true};
  co_return ServedList{std::make_shared<const HotList>("[]"), true};
}

Task<Result<void>> HotLists::drop_hidden_items(const ListQuery& query) {
  const auto stale = snapshots_.find(query);
  if (stale == snapshots_.end() || !stale->second.list) co_return Result<void>();
  const std::shared_ptr<const HotList> list = stale->second.list;
  std::string json = list->json();
  json::Document document;
  if (auto parsed = document.parse(json, {.max_nodes = json.size()}); !parsed) co_return parsed;
  std::vector<ListEntry> entries;
  std::vector<ItemId> ids;
  for (const json::Value each : document.root().elements()) {
    ids.push_back(ItemId::trusted(std::string(each["id"].text())));
    entries.push_back({ids.back(), each["score"].number().value_or(0), nullptr});
  }
  const std::uint64_t generation = generation_;
  FRESHET_CO_TRY(cards, co_await cards_.get(ids));
  const UnixSeconds now = wall_now();
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].card = std::move((*cards)[i]);
  std::erase_if(entries, [&](const ListEntry& each) { return each.card->is_hidden_at(now); });
  // Evicted or replaced meanwhile.
  const auto found = snapshots_.find(query);
  if (found == snapshots_.end() || found->second.list != list) co_return Result<void>();
  found->second.list = std::make_shared<const HotList>(render(entries, now), list->below_floor());
  found->second.usable = generation == generation_;
  co_return Result<void>();
}

void HotLists::delay_retry(const ListQuery& query, Clock::time_point now, milliseconds delay) {
  Snapshot& snapshot = snapshots_[query];
  snapshot.taken_at = now;
  snapshot.retry_at = now + delay;
}

std::shared_ptr<const HotList> HotLists::store_snapshot(const ListQuery& query, CachedList stored,
                                                        Clock::time_point now, std::uint64_t generation) {
  auto list = std::make_shared<const HotList>(std::move(stored.json), stored.below_floor);
  Snapshot& snapshot = snapshots_[query];
  snapshot.list = list;
  snapshot.taken_at = now;
  snapshot.retry_at = {};
  snapshot.fresh_until =
      now + std::min(settings_.list.worker_ttl, stored.expires_in.value_or(settings_.list.worker_ttl));
  snapshot.usable = generation == generation_;
  return list;
}

void HotLists::evict_snapshot() {
  if (snapshots_.size() < kMaxSnapshots) return;
  auto oldest = snapshots_.end();
  for (auto it = snapshots_.begin(); it != snapshots_.end(); ++it) {
    if (it->second.refreshing) continue;
    if (oldest == snapshots_.end() || it->second.taken_at < oldest->second.taken_at) oldest = it;
  }
  if (oldest != snapshots_.end()) snapshots_.erase(oldest);
}

void HotLists::invalidate(bool messages_lost) {
  if (!messages_lost) ++generation_;
  for (auto& [query, snapshot] : snapshots_) {
    snapshot.taken_at = snapshot.fresh_until = {};
    if (!messages_lost) snapshot.usable = false;
  }
}

Task<Result<ServedList>> HotLists::build_at(const ListQuery& query, UnixSeconds at) {
  auto built = co_await build(query, at);
  if (!built) co_return co_await serve_stale(query, built.error());
  co_return ServedList{std::make_shared<const HotList>(std::move(built->json), built->below_floor), false};
}

// --- building: rank → load cards → render

Task<Result<HotLists::BuiltList>> HotLists::build(const ListQuery& query, UnixSeconds at) {
  BuiltList out;
  const bool is_current = query.mode == ViewsMode::kCurrent;
  auto ranking = is_current ? scan_buckets(query, at) : scan_rank(query, kNoMaximum, out.has_pages);
  FRESHET_CO_TRY(scored, co_await ranking);
  // Articles leave the engagement rank below list.min_score, and only viewed ones enter trending.
  if (scored->empty() && query.model->is_computed() && query.window.count() == 0) {
    ListQuery newest = query;
    newest.model = &kNewestItems;
    FRESHET_CO_TRY(items, co_await scan_rank(newest, static_cast<double>(unix_s(std::min(at, wall_now()))),
                                             out.has_pages));
    scored = std::move(items);
    out.below_floor = !scored->empty();
  }
  std::vector<ItemId> ids;
  ids.reserve(scored->size());
  for (const ScoredItem& item : *scored) ids.push_back(item.item);
  FRESHET_CO_TRY(cards, co_await cards_.get(ids));
  std::vector<ListEntry> entries;
  entries.reserve(scored->size());
  for (std::size_t i = 0; i < scored->size(); ++i) {
    const ScoredItem& item = (*scored)[i];
    const double score = out.below_floor ? 0 : score_at(*query.model, item.score, at, settings_);
    // The keys were made with another half-life, which a reload has just changed. Serve the old
    // list until the ranks are rebuilt.
    if (!std::isfinite(score)) co_return fail(ErrorCode::kUnavailable, kRankRebuilding);
    entries.push_back({item.item, score, std::move((*cards)[i])});
  }
  out.json = render(entries, at);
  co_return out;
}

Task<Result<std::vector<ScoredItem>>> HotLists::scan_rank(const ListQuery& query, double max_score,
                                                          bool& has_pages) {
  std::vector<ScoredItem> best;
  std::set<std::string, std::less<>> seen;  // the rank may move between two pages
  std::optional<RankCursor> from = RankCursor();
  const auto deadline = Clock::now() + settings_.gateway.request_budget;
  while (from && best.size() < kMaxListSize) {
    if (Clock::now() > deadline) co_return fail(ErrorCode::kUnavailable, kOverBudget);
    FRESHET_CO_TRY(page, co_await hot_.rank_page(query, std::move(*from), std::int64_t{kMaxListSize}));
    for (ScoredItem& item : page->items) {
      if (best.size() == kMaxListSize || item.score > max_score) continue;
      if (seen.insert(item.item.str()).second) best.push_back(std::move(item));
    }
    from = std::move(page->next);
    has_pages = has_pages || from;
  }
  co_return best;
}

}  // namespace freshet::hot
