#include "scripts/ctl/replay/past_lists.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/hot/engagement.h"
#include "core/hot/views.h"

namespace freshet::ctl {
namespace {

constexpr seconds kMaxRenewalInterval{
    86400};  // the service renews a counter's TTL once a day, not at every event

seconds renewal_interval(seconds ttl) { return std::min(kMaxRenewalInterval, ttl / 2); }

std::optional<UnixSeconds> site_publish_time(const EventLog& log, const std::string& item) {
  const auto found = log.items.find(item);
  if (found == log.items.end()) return std::nullopt;
  return found->second.published;
}

std::vector<PastScore> top_scores(std::vector<PastScore> all, std::size_t limit) {
  std::sort(all.begin(), all.end(), [](const PastScore& a, const PastScore& b) {
    return a.score != b.score ? a.score > b.score : a.item > b.item;
  });
  if (all.size() > limit) all.resize(limit);
  return all;
}

// --- Engagement

struct Session {
  UnixSeconds until;
  std::int64_t dwell_ms = 0;
};

struct Article {
  hot::EngagementCounts counts;
  std::unordered_set<std::string_view> visitors;
  std::unordered_map<std::string_view, Session> sessions;
  std::optional<UnixSeconds> first_seen;  // for items that the log's items do not list
  UnixSeconds until;                      // expiry of its counters
  double key = 0;                         // as in hot:rank, from the last event
};

void count_visit(Article& article, const LogEvent& event, const EngagementSettings& settings) {
  const std::int64_t dwell = std::min(event.dwell_ms, settings.dwell_cap_ms);
  bool new_session = true;
  std::int64_t added_dwell = dwell;
  if (settings.session_window.count() > 0) {
    Session& session = article.sessions[event.session.empty() ? event.user : event.session];
    if (event.at < session.until) {
      new_session = false;
      added_dwell = std::max<std::int64_t>(0, dwell - session.dwell_ms);
    }
    session.dwell_ms = new_session ? dwell : std::max(session.dwell_ms, dwell);
    session.until = event.at + settings.session_window;
  }
  if (article.counts.pv == 0 && !new_session) {  // the counters expired within a running session
    new_session = true;
    added_dwell = dwell;
  }
  article.counts.dwell_sum_ms += added_dwell;
  article.counts.pv += new_session ? 1 : 0;
  article.counts.dwell_count += new_session ? 1 : 0;
  article.visitors.insert(event.user);
  article.counts.uv = static_cast<std::int64_t>(article.visitors.size());
  const bool renewal_due =
      article.until - event.at < settings.counter_ttl - renewal_interval(settings.counter_ttl);
  if (new_session && (article.counts.pv == 1 || renewal_due)) article.until = event.at + settings.counter_ttl;
}

void expire(Article& article, UnixSeconds now) {
  if (article.counts.pv == 0 || now < article.until) return;
  article.counts = {};
  article.visitors.clear();
  article.first_seen.reset();
}

// --- Views

struct ViewedItem {
  std::unordered_map<std::string_view, UnixSeconds> seen_until;  // by reader: end of the deduplication window
  std::int64_t day = -1;
  std::unordered_set<std::string_view> today;
  std::optional<UnixSeconds> first_seen;
  UnixSeconds first_until, until, renewed;
  UnixSeconds date;  // effective publish time at the last view
  std::int64_t pv = 0;
  double total = 0, score = 0;
  std::int64_t bucket_generation = 0;  // generation of the bucket that contains it
};

struct HourBucket {
  UnixSeconds until;
  std::int64_t generation = 0;
};

std::int64_t days(UnixSeconds at) {
  return std::chrono::floor<std::chrono::days>(at).time_since_epoch().count();
}
std::int64_t hours(UnixSeconds at) {
  return std::chrono::floor<std::chrono::hours>(at).time_since_epoch().count();
}

// Returns false for a view within the deduplication window.
bool count_view(ViewedItem& item, const LogEvent& event, std::optional<UnixSeconds> known,
                const ViewsSettings& settings) {
  if (settings.dedup_window.count() > 0) {
    UnixSeconds& until = item.seen_until[event.user];
    if (event.at < until) return false;
    until = event.at + settings.dedup_window;
  }
  if (days(event.at) != item.day) {
    item.day = days(event.at);
    item.today.clear();
  }
  const bool first_today = item.today.insert(event.user).second;
  if (event.at >= item.until) {  // the hash expired; the accumulated score stays in its set
    item.pv = 0;
    item.total = 0;
  }
  if (item.first_seen && event.at >= item.first_until) item.first_seen.reset();
  const bool is_new = !known && !item.first_seen;
  if (is_new) {
    item.first_seen = event.at;
    item.first_until = event.at + settings.counter_ttl;
  }
  item.date = known ? *known : *item.first_seen;
  const double increment = hot::view_increment(first_today, settings);
  item.score += hot::view_score(increment, item.date, event.at, settings);
  item.total += increment;
  if (item.pv++ == 0 || event.at - item.renewed > renewal_interval(settings.counter_ttl)) {
    item.until = event.at + settings.counter_ttl;
    item.renewed = event.at;
    if (!is_new) item.first_until = event.at + settings.counter_ttl;
  }
  return true;
}

}  // namespace

std::vector<PastScore> engagement_list_at(const EventLog& log, UnixSeconds at, const Settings& settings,
                                          std::size_t limit) {
  const EngagementSettings& engagement = settings.engagement;
  std::unordered_map<std::string, Article> articles;
  for (const LogEvent& event : log.events) {
    if (event.at > at) break;
    Article& article = articles[event.item];
    expire(article, event.at);
    count_visit(article, event, engagement);
    const auto known = site_publish_time(log, event.item);
    if (!known && !article.first_seen) article.first_seen = event.at;
    const UnixSeconds first = known ? std::min(*known, event.at) : *article.first_seen;
    article.key = hot::rank_key(hot::base_score(article.counts, engagement), first, engagement.half_life);
  }
  std::vector<PastScore> all;
  for (auto& [id, article] : articles) {
    const double score = hot::score_at(article.key, at, engagement.half_life);
    expire(article, at);
    if (std::isfinite(article.key) && score >= settings.list.min_score) {
      all.push_back({id, score, article.counts.pv, article.counts.uv});
    }
  }
  return top_scores(std::move(all), limit);
}

std::vector<PastScore> views_list_at(const EventLog& log, UnixSeconds at, PastMode mode,
                                     const Settings& settings, std::size_t limit) {
  std::unordered_map<std::string, ViewedItem> viewed;
  std::unordered_map<std::int64_t, HourBucket> buckets;
  for (const LogEvent& event : log.events) {
    if (event.at > at) break;
    ViewedItem& item = viewed[event.item];
    if (!count_view(item, event, site_publish_time(log, event.item), settings.views)) continue;
    HourBucket& bucket = buckets[hours(item.date)];
    if (event.at >= bucket.until) ++bucket.generation;  // the bucket had expired with all its members
    bucket.until = event.at + settings.views.counter_ttl;
    item.bucket_generation = bucket.generation;
  }
  std::vector<PastScore> all;
  for (const auto& [id, item] : viewed) {
    const bool alive = at < item.until;
    PastScore past{id, item.score, alive ? item.pv : 0, static_cast<std::int64_t>(item.today.size())};
    if (mode == PastMode::kCurrent) {
      const HourBucket& bucket = buckets[hours(item.date)];
      if (bucket.generation != item.bucket_generation || at >= bucket.until) continue;
      past.score = hot::view_score(item.total, item.date, at, settings.views);
    }
    all.push_back(std::move(past));
  }
  return top_scores(std::move(all), limit);
}

}  // namespace freshet::ctl
