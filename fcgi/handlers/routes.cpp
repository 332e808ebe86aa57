#include "fcgi/handlers/routes.h"

#include <array>
#include <string>

#include "core/config/aliases.h"
#include "core/hot/models.h"
#include "fcgi/handlers/admin_pages.h"
#include "fcgi/handlers/feed.h"
#include "fcgi/handlers/feedback.h"
#include "fcgi/handlers/follows.h"
#include "fcgi/handlers/history.h"
#include "fcgi/handlers/hot.h"
#include "fcgi/handlers/interactions.h"
#include "fcgi/handlers/items.h"
#include "fcgi/handlers/preview.h"
#include "fcgi/handlers/recommendations.h"
#include "fcgi/handlers/timeline.h"
#include "fcgi/handlers/users.h"
#include "fcgi/handlers/visitor.h"

namespace freshet::handlers {

namespace {

constexpr std::size_t kReportBodyLimit = 4UL * 1024;

// The rate limits that public requests are charged to. Hot lists are free unless they have `at`,
// because nginx caches them.
constexpr http::RouteCost kTrack{"track", &LimitSettings::track, true};
constexpr http::RouteCost kViews{"views", &LimitSettings::views, true};
constexpr http::RouteCost kHotAt{"hot", &LimitSettings::hot, false, "at"};
constexpr http::RouteCost kFeed{"feed", &LimitSettings::feed, true, {}, true};
constexpr http::RouteCost kHistory{"history", &LimitSettings::history, true};
constexpr http::RouteCost kVisitor{"visitor", &LimitSettings::history, true};
constexpr http::RouteCost kFeedback{"feedback", &LimitSettings::feedback, true};
constexpr http::RouteCost kRecommendations{
    "recommendations", &LimitSettings::recommendations, false, {}, true};
constexpr http::RouteCost kTimeline{"waterfall", &LimitSettings::timeline};

// Names that several routes know.
constexpr std::string_view kHotParameters = "model limit mode window tag at";
constexpr std::string_view kDismissalMembers = "userId topicId kind reason eventId";
constexpr std::string_view kFollowNames = "userId follower author";
constexpr std::string_view kItemMembers =
    "id title text url author author_id tags published_at update_time hidden section language story "
    "text_format "
    "expires_at weight";

constexpr std::array kRoutes{
    // method, path, zone, body limit, handler (with cost, authentication, budget), known parameters
    // and members
    Route{Method::kPost,
          "/api/track",
          Zone::kPublic,
          kReportBodyLimit,
          {post_track, kTrack, RouteAuth::kBeacon},
          "",
          "articleId sessionId fingerprint userId eventId dwellMs publishedAt"},
    Route{Method::kPost,
          "/api/views",
          Zone::kPublic,
          kReportBodyLimit,
          {post_views, kViews, RouteAuth::kBeacon},
          "",
          "articleId fingerprint eventId publishedAt"},
    Route{Method::kPost, "/api/visitor", Zone::kPublic, 0, {post_visitor, RouteAuth::kBeacon}},
    Route{Method::kDelete, "/api/visitor", Zone::kPublic, 0, {delete_visitor, kVisitor}},
    Route{Method::kGet, "/api/visitor/export", Zone::kPublic, 0, {get_visitor_export, kVisitor}},
    Route{Method::kGet, "/api/whoami", Zone::kInternal, 0, get_whoami},
    Route{Method::kGet, "/api/hot", Zone::kPublic, 0, {get_hot, kHotAt}, kHotParameters},
    Route{Method::kPost,
          "/api/feed",
          Zone::kPublic,
          kStandardBodyLimit,
          {post_feed, kFeed},
          "",
          "action limit userId agent_id query page eventId"},
    Route{Method::kPost,
          "/api/history",
          Zone::kPublic,
          kStandardBodyLimit,
          {post_history, kHistory},
          "",
          "userId topicId kind eventId"},
    Route{Method::kGet, "/api/history", Zone::kPublic, 0, {get_history, kHistory}, "userId kind"},
    Route{
        Method::kDelete, "/api/history", Zone::kPublic, 0, {delete_history, kHistory}, "userId kind topicId"},
    Route{Method::kPost,
          "/api/history/merge",
          Zone::kInternal,
          kStandardBodyLimit,
          {post_history_merge, RouteAuth::kSigned, Budget::kBulk},
          "",
          "from to"},
    Route{Method::kPost, "/api/interactions", Zone::kInternal, kBulkBodyLimit, post_interactions, "",
          "userId topicId kind at eventId"},
    Route{Method::kPost,
          "/api/feedback",
          Zone::kPublic,
          kStandardBodyLimit,
          {post_feedback, kFeedback},
          "",
          kDismissalMembers},
    Route{Method::kDelete,
          "/api/feedback",
          Zone::kPublic,
          kStandardBodyLimit,
          {delete_feedback, kFeedback},
          "userId topicId kind",
          kDismissalMembers},
    Route{Method::kGet,
          "/api/recommendations",
          Zone::kPublic,
          0,
          {get_recommendations, kRecommendations},
          "userId limit exclude"},
    Route{Method::kGet,
          "/api/items/{id}/similar",
          Zone::kPublic,
          0,
          {get_similar, kRecommendations},
          "userId limit"},
    Route{Method::kGet, "/api/model", Zone::kInternal, 0, get_model},
    Route{Method::kGet,
          "/api/waterfall/{channel}",
          Zone::kPublic,
          0,
          {get_timeline, kTimeline},
          "userId customerId direction score limit"},
    Route{Method::kPost, "/api/waterfall/{channel}", Zone::kInternal, kBulkBodyLimit, post_timeline, "",
          "items customers followersOf eventId"},
    Route{Method::kDelete, "/api/waterfall/{channel}/{itemId}", Zone::kInternal, 0, delete_timeline,
          "userId customerId"},
    Route{Method::kPut, "/api/follows", Zone::kInternal, kStandardBodyLimit, put_follow, kFollowNames,
          kFollowNames},
    Route{Method::kDelete, "/api/follows", Zone::kInternal, kStandardBodyLimit, delete_follow, kFollowNames,
          kFollowNames},
    Route{Method::kGet, "/api/follows", Zone::kPublic, 0, {get_follows, kTimeline}, "userId follower"},
    Route{Method::kGet, "/api/articles/{id}/stats", Zone::kInternal, 0, get_article_stats},
    Route{Method::kGet, "/api/stats", Zone::kInternal, 0, get_stats, "id ids"},
    Route{Method::kPut, "/api/items/{id}", Zone::kInternal, kBulkBodyLimit, put_item, "", kItemMembers},
    Route{Method::kGet, "/api/items/{id}", Zone::kInternal, 0, get_item},
    Route{Method::kDelete, "/api/items/{id}", Zone::kInternal, 0, delete_item},
    Route{Method::kPost, "/api/items", Zone::kInternal, kBulkBodyLimit, post_items, "", kItemMembers},
    Route{Method::kGet,
          "/api/users/{id}",
          Zone::kInternal,
          0,
          {get_user, RouteAuth::kSigned, Budget::kBulk},
          "from"},
    Route{Method::kDelete, "/api/users/{id}", Zone::kInternal, 0, delete_user},
    Route{Method::kGet, "/api/jobs/{id}", Zone::kInternal, 0, get_job},
    Route{Method::kGet, "/metrics", Zone::kInternal, 0, {get_metrics, RouteAuth::kMonitoring, Budget::kNone}},
    Route{Method::kGet, "/health/live", Zone::kInternal, 0, {get_live, RouteAuth::kProbe}},
    Route{Method::kGet, "/health/ready", Zone::kInternal, 0, {get_ready, RouteAuth::kProbe}},
};

// Parameters of hot lists and of all models, including their former names, and those that the
// handler refuses with a specific error.
const std::string& preview_parameters() {
  static const std::string names = [] {
    std::string out = std::string(kHotParameters) + " compare views.pv_weight views.uv_weight";
    for (const hot::Model& model : hot::kModels) {
      for (const std::string_view name : model.parameters) {
        out.append(" ").append(name);
        if (const NameAlias* alias = alias_of(name)) out.append(" ").append(alias->former_name);
      }
    }
    return out;
  }();
  return names;
}

}  // namespace

Budget budget_of(const Route& route) {
  return route.body_limit == kBulkBodyLimit ? Budget::kBulk : route.handler.budget;
}

void publish_route_names(const Settings& settings, Scoreboard& board) {
  std::size_t row = 1;
  for (const Route& route : route_table(settings))
    board.set_route_name(row++, std::string(method_name(route.method)).append(" ").append(route.path));
}

std::vector<Route> route_table(const Settings& settings) {
  std::vector<Route> table(kRoutes.begin(), kRoutes.end());
  table.push_back({Method::kGet,
                   "/api/hot/preview",
                   Zone::kInternal,
                   0,
                   {get_preview, RouteAuth::kSigned, Budget::kBulk},
                   preview_parameters()});
  table.push_back({Method::kGet, settings.pool.ping_path, Zone::kInternal, 0, {get_ping, RouteAuth::kProbe}});
  table.push_back({Method::kGet,
                   settings.pool.status_path,
                   Zone::kInternal,
                   0,
                   {get_status, RouteAuth::kMonitoring, Budget::kNone},
                   "json html xml openmetrics full history"});
  if (settings.track.pixel)
    table.push_back({Method::kGet,
                     "/api/track.gif",
                     Zone::kPublic,
                     0,
                     {get_pixel, kTrack, RouteAuth::kAnonymous},
                     "articleId"});
  return table;
}

}  // namespace freshet::handlers
