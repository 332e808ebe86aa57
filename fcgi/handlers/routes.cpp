#include "fcgi/handlers/routes.h"

#include <array>

#include "fcgi/handlers/feed.h"
#include "fcgi/handlers/feedback.h"
#include "fcgi/handlers/follows.h"
#include "fcgi/handlers/history.h"
#include "fcgi/handlers/hot.h"
#include "fcgi/handlers/interactions.h"
#include "fcgi/handlers/items.h"
#include "fcgi/handlers/operation.h"
#include "fcgi/handlers/preview.h"
#include "fcgi/handlers/recommendations.h"
#include "fcgi/handlers/users.h"
#include "fcgi/handlers/visitor.h"
#include "fcgi/handlers/waterfall.h"

namespace freshet::handlers {

namespace {

constexpr std::size_t kReportBody = 4UL * 1024;

// What a request through the public server takes from. A list of what is hot costs nothing while it
// may come from nginx's cache.
constexpr http::Cost kTrack{"track", &LimitSettings::track, true};
constexpr http::Cost kViews{"views", &LimitSettings::views, true};
constexpr http::Cost kHotAt{"hot", &LimitSettings::hot, false, "at"};
constexpr http::Cost kFeed{"feed", &LimitSettings::feed, true};
constexpr http::Cost kHistory{"history", &LimitSettings::history, true};
constexpr http::Cost kFeedback{"feedback", &LimitSettings::feedback, true};
constexpr http::Cost kRecommendations{"recommendations", &LimitSettings::recommendations};
constexpr http::Cost kWaterfall{"waterfall", &LimitSettings::timeline};

constexpr std::array kRoutes{
    //    method           path                          zone             body       handler
    Route{Method::kPost, "/api/track", Zone::kPublic, kReportBody, {post_track, kTrack, Caller::kBeacon}},
    Route{Method::kPost, "/api/views", Zone::kPublic, kReportBody, {post_views, kViews, Caller::kBeacon}},
    Route{Method::kPost, "/api/visitor", Zone::kPublic, 0, {post_visitor, Caller::kBeacon}},
    Route{Method::kGet, "/api/hot", Zone::kPublic, 0, {get_hot, kHotAt}},
    Route{Method::kGet, "/api/hot/preview", Zone::kInternal, 0, {get_preview, Caller::kAsked, Budget::kBulk}},
    Route{Method::kPost, "/api/feed", Zone::kPublic, kBody, {post_feed, kFeed}},
    Route{Method::kPost, "/api/history", Zone::kPublic, kBody, {post_history, kHistory}},
    Route{Method::kGet, "/api/history", Zone::kPublic, 0, {get_history, kHistory}},
    Route{Method::kDelete, "/api/history", Zone::kPublic, 0, {delete_history, kHistory}},
    Route{Method::kPost,
          "/api/history/merge",
          Zone::kInternal,
          kBody,
          {post_history_merge, Caller::kAsked, Budget::kBulk}},
    Route{Method::kPost, "/api/interactions", Zone::kInternal, kBulkBody, post_interactions},
    Route{Method::kPost, "/api/feedback", Zone::kPublic, kBody, {post_feedback, kFeedback}},
    Route{Method::kDelete, "/api/feedback", Zone::kPublic, kBody, {delete_feedback, kFeedback}},
    Route{Method::kGet, "/api/recommendations", Zone::kPublic, 0, {get_recommendations, kRecommendations}},
    Route{Method::kGet, "/api/items/{id}/similar", Zone::kPublic, 0, {get_similar, kRecommendations}},
    Route{Method::kGet, "/api/model", Zone::kInternal, 0, get_model},
    Route{Method::kGet, "/api/waterfall/{channel}", Zone::kPublic, 0, {get_waterfall, kWaterfall}},
    Route{Method::kPost, "/api/waterfall/{channel}", Zone::kInternal, kBulkBody, post_waterfall},
    Route{Method::kDelete, "/api/waterfall/{channel}/{itemId}", Zone::kInternal, 0, delete_waterfall},
    Route{Method::kPut, "/api/follows", Zone::kInternal, kBody, put_follow},
    Route{Method::kDelete, "/api/follows", Zone::kInternal, kBody, delete_follow},
    Route{Method::kGet, "/api/follows", Zone::kPublic, 0, {get_follows, kWaterfall}},
    Route{Method::kGet, "/api/articles/{id}/stats", Zone::kInternal, 0, get_article_stats},
    Route{Method::kGet, "/api/stats", Zone::kInternal, 0, get_stats},
    Route{Method::kPut, "/api/items/{id}", Zone::kInternal, kBulkBody, put_item},
    Route{Method::kGet, "/api/items/{id}", Zone::kInternal, 0, get_item},
    Route{Method::kDelete, "/api/items/{id}", Zone::kInternal, 0, delete_item},
    Route{Method::kPost, "/api/items", Zone::kInternal, kBulkBody, post_items},
    Route{Method::kGet, "/api/users/{id}", Zone::kInternal, 0, {get_user, Caller::kAsked, Budget::kBulk}},
    Route{Method::kDelete, "/api/users/{id}", Zone::kInternal, 0, delete_user},
    Route{Method::kGet, "/api/jobs/{id}", Zone::kInternal, 0, get_job},
    Route{Method::kGet, "/metrics", Zone::kInternal, 0, {get_metrics, Caller::kWatcher, Budget::kNone}},
    Route{Method::kGet, "/health/live", Zone::kInternal, 0, {get_live, Caller::kProbe}},
    Route{Method::kGet, "/health/ready", Zone::kInternal, 0, {get_ready, Caller::kProbe}},
};

}  // namespace

Budget budget_of(const Route& route) {
  return route.body_limit == kBulkBody ? Budget::kBulk : route.handler.budget;
}

void name_routes(const Settings& settings, Scoreboard& board) {
  std::size_t row = 1;
  for (const Route& route : routes(settings))
    board.name_route(row++, std::string(method_name(route.method)).append(" ").append(route.path));
}

std::vector<Route> routes(const Settings& settings) {
  std::vector<Route> table(kRoutes.begin(), kRoutes.end());
  table.push_back({Method::kGet, settings.pool.ping_path, Zone::kInternal, 0, {get_ping, Caller::kProbe}});
  table.push_back({Method::kGet,
                   settings.pool.status_path,
                   Zone::kInternal,
                   0,
                   {get_status, Caller::kWatcher, Budget::kNone}});
  return table;
}

}  // namespace freshet::handlers
