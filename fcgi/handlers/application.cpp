#include "fcgi/handlers/application.h"

#include <strings.h>

#include <algorithm>
#include <array>

#include "core/base/log.h"
#include "core/base/time.h"
#include "fcgi/handlers/visitor.h"
#include "fcgi/http/etag.h"
#include "fcgi/http/internal_guard.h"
#include "fcgi/http/problem.h"
#include "fcgi/http/signature.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

namespace {

struct RefusalRow {
  ErrorCode code;
  Refusal reason;
};
constexpr std::array kRefusals{
    RefusalRow{ErrorCode::kInvalid, Refusal::kBadMember},
    RefusalRow{ErrorCode::kUnauthorised, Refusal::kUnauthorised},
    RefusalRow{ErrorCode::kForbidden, Refusal::kForbidden},
    RefusalRow{ErrorCode::kNotFound, Refusal::kNotFound},
    RefusalRow{ErrorCode::kTooLarge, Refusal::kTooLarge},
    RefusalRow{ErrorCode::kUnavailable, Refusal::kRedisUnavailable},
    RefusalRow{ErrorCode::kUnknownOutcome, Refusal::kDeadline},
};

bool has_media_type(std::string_view content_type, std::string_view type) {
  return content_type.size() >= type.size() &&
         strncasecmp(content_type.data(), type.data(), type.size()) == 0;
}

// application/json, application/x-ndjson and similar: types that a page cannot send without a CORS
// preflight.
bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type.size() >= 4 && has_media_type(type.substr(type.size() - 4), "json");
}

constexpr std::string_view kForm = "application/x-www-form-urlencoded";

// True if a page of any site can send the body without a CORS preflight (the Fetch standard's
// simple requests, of which only POST writes). text/plain marks a beacon, whatever the method.
bool is_simple_request(const Request& request) {
  const std::string_view type = request.content_type;
  if (has_media_type(type, "text/plain")) return true;
  return request.method == Method::kPost &&
         (has_media_type(type, kForm) || has_media_type(type, "multipart/form-data"));
}

// True if there is a body that is declared as something other than JSON. The internal server
// requires a JSON type, which no page can send without a preflight; the public one also accepts no
// type or a form's (curl's default).
bool is_not_json(const Request& request) {
  const std::string_view type = request.content_type;
  if (request.body.empty() || is_json(type)) return false;
  return request.zone == Zone::kInternal || !(type.empty() || has_media_type(type, kForm));
}

// Error reasons that are counted separately from others with the same code.
struct ReasonRow {
  std::string_view reason;
  Refusal refusal;
};
constexpr std::array kReasonRefusals{
    ReasonRow{"bad_json", Refusal::kBadJson},
    ReasonRow{"bad_body", Refusal::kBadJson},
    ReasonRow{"denied", Refusal::kDenied},
    ReasonRow{"foreign_origin", Refusal::kForeignOrigin},
    ReasonRow{"over_budget", Refusal::kDeadline},
    ReasonRow{"spool_full", Refusal::kSpoolFull},
    ReasonRow{"unverified_quota", Refusal::kUnverifiedQuota},
};

// True if the body arrived so slowly that the request's budget is already used up.
bool is_body_too_slow(const Request& request, const GatewaySettings& settings) {
  if (request.budget == Budget::kNone) return false;
  const auto budget = request.budget == Budget::kBulk ? settings.bulk_budget : settings.request_budget;
  return request.last_byte_at - request.first_byte_at > budget;
}

void count_refusal(Services& services, const Error& error) {
  for (const ReasonRow& row : kReasonRefusals) {
    if (row.reason == error.reason) return services.count_refusal(row.refusal);
  }
  const auto row =
      std::find_if(kRefusals.begin(), kRefusals.end(), [&](auto& r) { return r.code == error.code; });
  if (row != kRefusals.end()) services.count_refusal(row->reason);
}

// In the order of http::BucketKind.
constexpr std::array kBucketRefusals{Refusal::kRateLimited, Refusal::kNetworkLimited,
                                     Refusal::kServiceLimited};

// Classifies the request for the internal server's guard against web pages.
http::InternalResource internal_resource(const http::Match& match, const std::vector<Route>& routes) {
  if (match.outcome != http::Match::Outcome::kRoute) return http::InternalResource::kData;
  const RouteAuth auth = routes[match.route].handler.auth;
  if (auth == RouteAuth::kProbe) return http::InternalResource::kHealth;
  return auth == RouteAuth::kMonitoring ? http::InternalResource::kPage : http::InternalResource::kData;
}

// True if names that the route does not know are ignored: others append parameters to probes and
// pages, and a page of the site should not fail for a surplus name. Never for DELETE, which removes
// the more the fewer names it has.
bool is_lenient(const Request& request, const Route& route) {
  const RouteAuth auth = route.handler.auth;
  return is_unsigned(auth) || auth == RouteAuth::kBeacon ||
         (route.method == Method::kGet && route.zone == Zone::kPublic) ||
         (request.method != Method::kDelete && http::prefers_lenient_handling(request.prefer));
}

// The URI below the path under which nginx mounts the routes.
std::string_view without_prefix(const Request& request) {
  std::string_view uri = request.uri;
  if (uri.starts_with(request.prefix)) uri.remove_prefix(request.prefix.size());
  return uri;
}

bool changes_state(Method method) { return method != Method::kGet && method != Method::kHead; }

// A name in the body of a DELETE, or the second of two equal parameters, must not be ignored: more
// or something else would be deleted than was named. Some HTTP clients send "{}" with each request.
Result<void> check_deletion(const Request& request, const Route& route, const http::Target& target) {
  if (route.method != Method::kDelete) return {};
  const bool has_content = !request.body.empty() && request.body != "{}";
  if (route.body_limit == 0 && has_content)
    return fail(ErrorCode::kInvalid, "unexpected_body", {}, "name what to delete in the path and the query");
  const auto& parameters = target.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (parameters[j].first == parameters[i].first)
        return fail(ErrorCode::kInvalid, "bad_parameter", parameters[i].first, "is given more than once");
    }
  }
  return {};
}

}  // namespace

Application::Application(Services& services)
    : services_(services),
      routes_(route_table(services.settings)),
      router_(routes_),
      cors_(services.settings.http.cors_origins, services.settings.http.trusts_proxy()),
      login_merges_(services.users) {}

Task<void> Application::serve(Request& request, Response& response) {
  std::string exception_text;
  std::optional<http::RateLimitStatus> rate_limit;
  try {
    auto served = co_await dispatch(request, rate_limit);
    if (served) {
      response = std::move(*served);
    } else {
      render_error(request, served.error(), response);
    }
  } catch (const std::exception& error) {
    exception_text = error.what();
  } catch (...) {
    exception_text = "not a std::exception";
  }
  if (!exception_text.empty()) {
    log::error("handler_exception_caught",
               {{"request", std::string(request.request_id)}, {"what", exception_text}});
    response = http::problem(Error{ErrorCode::kInternal, "internal", {}, {}});
  }
  if (rate_limit) http::add_rate_limit_headers(response, *rate_limit);
  if (request.zone == Zone::kPublic) cors_.add_cors_headers(request, response);
}

Task<Result<Response>> Application::dispatch(Request& request,
                                             std::optional<http::RateLimitStatus>& rate_limit) {
  request.trace.enter_phase(RequestPhase::kParse);
  const http::AccessDecision access = access_for(request);
  if (access == http::AccessDecision::kDenied)
    co_return fail(ErrorCode::kForbidden, "denied", {}, "this client is blocked");
  FRESHET_CO_TRY(target, http::Target::parse(without_prefix(request)));
  FRESHET_CO_TRY(match, router_.match(request.method, target->path(), request.zone));
  if (request.zone == Zone::kInternal) {
    const HttpSettings& settings = services_.settings.http;
    FRESHET_CO_TRY(checked,
                   http::check_internal_request(request, settings.internal_hosts,
                                                internal_resource(*match, routes_), settings.trusts_proxy()));
  }
  switch (match->outcome) {
    case http::Match::Outcome::kNotFound:
      services_.count_refusal(Refusal::kNotFound);
      co_return http::no_such_route();
    case http::Match::Outcome::kMethodNotAllowed:
      services_.count_refusal(Refusal::kMethodNotAllowed);
      co_return http::method_not_allowed(match->allow);
    case http::Match::Outcome::kOptions:
      co_return cors_.options_response(request, *match);
    case http::Match::Outcome::kRoute:
      break;
  }
  const Route& route = routes_[match->route];
  request.trace.route = static_cast<std::uint16_t>(match->route + 1);
  request.trace.enter_phase(RequestPhase::kParse);
  request.budget = budget_of(route);
  if (is_body_too_slow(request, services_.settings.gateway))
    co_return fail(ErrorCode::kUnavailable, "over_budget");
  FRESHET_CO_TRY(key_id, check_request(request, route));
  const Result<http::AuthResult> auth_result = route.handler.auth == RouteAuth::kAnonymous
                                                   ? http::AuthResult()
                                                   : services_.identity.verify(request, wall_now());
  Call call{services_,
            request,
            *target,
            *match,
            auth_result,
            route.members,
            http::NameCheck(is_lenient(request, route)),
            *key_id,
            access == http::AccessDecision::kAllowed};
  rate_limit = consume_rate_limit(call, route.handler.cost);
  if (rate_limit && !rate_limit->granted) {
    services_.count_refusal(kBucketRefusals[static_cast<std::size_t>(rate_limit->kind)]);
    co_return http::problem(Error{ErrorCode::kRateLimited, "rate_limited", {}, {}}, rate_limit->retry_after);
  }
  FRESHET_CO_TRY(names_checked, call.names.check_parameters(*target, route.parameters));
  FRESHET_CO_TRY(deletion_checked, check_deletion(request, route, *target));
  auto result = co_await route.handler.handle(call);
  if (result && !call.names.ignored().empty()) result->add_header("Freshet-Ignored", call.names.ignored());
  if (result) merge_visitor(call, *result);
  if (result && route.method == Method::kGet && !is_unsigned(route.handler.auth))
    http::apply_if_none_match(request, *result);
  if (rate_limit && call.search_time) {
    const http::RateLimitSubject subject = rate_limit_subject(call);
    rate_limit = services_.rate_limiter.charge(route.handler.cost, subject, *call.search_time, rate_limit,
                                               http::monotonic_us());
  }
  co_return result;
}

// A response that caches may keep gets no cookie.
void Application::merge_visitor(const Call& call, Response& response) {
  const Settings& settings = services_.settings;
  if (call.request.zone != Zone::kPublic || !call.auth_result || call.auth_result->reader.empty() ||
      !call.auth_result->cookie || !settings.identity.merge_on_login || !settings.readers.anonymous)
    return;
  const bool moved = login_merges_.note(*call.auth_result->cookie, call.auth_result->reader);
  if (moved && response.headers.find("private") != std::string::npos &&
      response.headers.find("Set-Cookie") == std::string::npos)
    (void)add_visitor_cookie(call, response);
}

// A client that failed verification is charged as an anonymous one.
http::RateLimitSubject Application::rate_limit_subject(const Call& call) const {
  const http::AuthResult anonymous;
  http::RateLimitSubject subject =
      services_.rate_limiter.subject_for(call.request, call.auth_result ? *call.auth_result : anonymous);
  subject.limits_searches = !subject.signed_in && !services_.identity.trusts_claims(call.request.zone);
  return subject;
}

// The only place that charges buckets before a handler runs; dispatch() charges search time
// afterwards.
std::optional<http::RateLimitStatus> Application::consume_rate_limit(const Call& call,
                                                                     const http::RouteCost& cost) {
  if (call.request.zone != Zone::kPublic || call.is_exempt) return std::nullopt;
  if (!cost.only_with_parameter.empty() && !call.target.parameter(cost.only_with_parameter))
    return std::nullopt;
  return services_.rate_limiter.try_consume(cost, rate_limit_subject(call), http::monotonic_us(),
                                            redis::write_cost(services_.redis_memory().usage()));
}

// The client lists apply to the public server only; access to the internal one is up to the site.
http::AccessDecision Application::access_for(const Request& request) const {
  if (services_.client_lists == nullptr || request.zone != Zone::kPublic)
    return http::AccessDecision::kUnlisted;
  return http::decide_access(*services_.client_lists, request.remote_addr, request.user_agent);
}

// The checks that a route requires of every request before its handler runs. Returns the id of the
// key that signed the request; empty if no signature was required.
Result<std::string_view> Application::check_request(const Request& request, const Route& route) {
  const RouteAuth auth = route.handler.auth;
  std::string_view key_id;
  if (request.zone == Zone::kPublic) {
    if (changes_state(request.method) && cors_.is_foreign(request))
      return fail(ErrorCode::kForbidden, "foreign_origin", {},
                  http::describe_origins(request, services_.settings.http.trusts_proxy())
                      .append("; ")
                      .append(http::origin_advice(request))
                      .append(". Other sites must be listed in http.cors_origins"));
  } else if (services_.signature_keys != nullptr && !services_.signature_keys->empty() &&
             !is_unsigned(auth)) {
    const http::SignedRequest signed_request{method_name(request.method), request.uri, request.body};
    FRESHET_TRY(kid, services_.signature_keys->verify(request.authorization, signed_request, wall_now()));
    key_id = *kid;
  }
  const std::size_t limit = body_limit(route.body_limit);
  if (request.body.size() > limit)
    return fail(ErrorCode::kTooLarge, "too_large", {},
                "the body may have at most " + std::to_string(limit) + " bytes");
  // On the internal server a beacon must come from one of its own pages, as its Origin says:
  // requests with another Origin were rejected earlier.
  const bool beacon =
      auth == RouteAuth::kBeacon && (request.zone == Zone::kPublic || !request.origin.empty());
  if (!beacon && (is_simple_request(request) || is_not_json(request)))
    return fail(ErrorCode::kInvalid, "bad_content_type", {},
                "use application/json, or application/x-ndjson for lines");
  return key_id;
}

std::size_t Application::body_limit(std::size_t route_limit) const {
  const GatewaySettings& gateway = services_.settings.gateway;
  if (route_limit == kBulkBodyLimit) return gateway.max_bulk_body_bytes;
  if (route_limit != 0 && route_limit < kStandardBodyLimit)
    return std::min(route_limit, gateway.max_body_bytes);
  return gateway.max_body_bytes;  // a route without a body ignores one
}

void Application::render_error(const Request& request, const Error& error, Response& response) {
  count_refusal(services_, error);
  if (error.code == ErrorCode::kInternal) {
    log::error("request_failed", {{"request", std::string(request.request_id)},
                                  {"reason", std::string(error.reason)},
                                  {"detail", error.detail}});
  }
  // A network may create another unverified article every quarter of an hour.
  constexpr seconds kUnverifiedRetryAfter{900};
  response =
      error.reason == "unverified_quota" ? http::problem(error, kUnverifiedRetryAfter) : http::problem(error);
}

void Application::overloaded(const Request& request, Response& response) {
  response = http::problem(Error{ErrorCode::kUnavailable, "overloaded", {}, {}});
  if (request.zone == Zone::kPublic) cors_.add_cors_headers(request, response);
}

void Application::deadline_exceeded(const Request& request, Response& response) {
  const bool reads = request.method == Method::kGet || request.method == Method::kHead;
  const ErrorCode code = reads ? ErrorCode::kUnavailable : ErrorCode::kUnknownOutcome;
  services_.count_refusal(Refusal::kDeadline);
  auto fallback = request.on_deadline ? request.on_deadline() : std::nullopt;
  response = fallback ? std::move(*fallback) : http::problem(Error{code, "over_budget", {}, {}});
  if (request.zone == Zone::kPublic) cors_.add_cors_headers(request, response);
}

}  // namespace freshet::handlers
