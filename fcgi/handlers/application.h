// From request to reply: route, limits, handler, error → problem document. The only place that
// catches exceptions of handlers.
#pragma once

#include "core/async/task.h"
#include "fcgi/gateway/request.h"
#include "fcgi/handlers/login_merges.h"
#include "fcgi/handlers/routes.h"
#include "fcgi/handlers/services.h"
#include "fcgi/http/client_list.h"
#include "fcgi/http/cors.h"
#include "fcgi/http/router.h"

namespace freshet::handlers {

class Application {
 public:
  // `services` must outlive this.
  explicit Application(Services& services);

  // Fills `response`; never throws. Both arguments must live until the task has ended.
  Task<void> serve(Request& request, Response& response);
  // The reply to a request beyond pm.max_in_flight.
  void overloaded(const Request& request, Response& response);
  // The reply to a request whose budget was used up while its handler ran: what the handler offers
  // (Request::on_deadline), otherwise 503. To a write it says that the outcome is unknown, because
  // the handler continues.
  void deadline_exceeded(const Request& request, Response& response);

 private:
  // `rate_limit`: what is left of the client's rate limit, if there is one.
  Task<Result<Response>> dispatch(Request& request, std::optional<http::RateLimitStatus>& rate_limit);
  std::optional<http::RateLimitStatus> consume_rate_limit(const Call& call, const http::RouteCost& cost);
  // Starts a merge of the visitor into the reader who signed in, and replaces the cookie
  // afterwards.
  void merge_visitor(const Call& call, Response& response);
  http::RateLimitSubject rate_limit_subject(const Call& call) const;
  void render_error(const Request& request, const Error& error, Response& response);
  std::size_t body_limit(std::size_t route_limit) const;

  http::AccessDecision access_for(const Request& request) const;
  Result<std::string_view> check_request(const Request& request, const Route& route);
  Services& services_;
  std::vector<Route> routes_;
  http::Router router_;
  http::Cors cors_;
  LoginMerges login_merges_;
};

}  // namespace freshet::handlers
