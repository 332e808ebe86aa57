#include "fcgi/handlers/application.h"

#include <strings.h>

#include <algorithm>
#include <array>

#include "core/base/log.h"
#include "core/base/time.h"
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
    RefusalRow{ErrorCode::kUnavailable, Refusal::kRedisAway},
    RefusalRow{ErrorCode::kUnknownOutcome, Refusal::kDeadline},
};

bool is_type(std::string_view content_type, std::string_view type) {
  return content_type.size() >= type.size() &&
         strncasecmp(content_type.data(), type.data(), type.size()) == 0;
}

// application/json, application/x-ndjson and their like: none that a page may send unasked.
bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type.size() >= 4 && is_type(type.substr(type.size() - 4), "json");
}

constexpr std::string_view kForm = "application/x-www-form-urlencoded";

// True iff the body may come from a page of any site that did not have to ask first (the Fetch
// standard's simple requests, of which only POST writes). text/plain says "beacon", whatever the
// method.
bool sent_unasked(const Request& request) {
  const std::string_view type = request.content_type;
  if (is_type(type, "text/plain")) return true;
  return request.method == Method::kPost && (is_type(type, kForm) || is_type(type, "multipart/form-data"));
}

// True iff there is a body and it is said to be something else than JSON. On the internal server it
// must be said to be JSON, which no page may send unasked; on the public one no type, or a form's
// (curl's default), says nothing.
bool is_no_json(const Request& request) {
  const std::string_view type = request.content_type;
  if (request.body.empty() || is_json(type)) return false;
  return request.zone == Zone::kInternal || !(type.empty() || is_type(type, kForm));
}

// What is counted apart from others with its code.
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
    ReasonRow{"too_many_unknown", Refusal::kTooManyUnknown},
};

// Whether a body came so slowly that nothing is left of the request's time.
bool came_too_late(const Request& request, const GatewaySettings& settings) {
  if (request.budget == Budget::kNone) return false;
  const auto budget = request.budget == Budget::kBulk ? settings.bulk_budget : settings.request_budget;
  return request.whole - request.received > budget;
}

void count_refusal(Services& services, const Error& error) {
  for (const ReasonRow& row : kReasonRefusals) {
    if (row.reason == error.reason) return services.count(row.refusal);
  }
  const auto row =
      std::find_if(kRefusals.begin(), kRefusals.end(), [&](auto& r) { return r.code == error.code; });
  if (row != kRefusals.end()) services.count(row->reason);
}

// In the order of http::BucketKind.
constexpr std::array kRefusedBy{Refusal::kRateLimited, Refusal::kNetworkLimited, Refusal::kServiceLimited};

// What a request asks of the internal server, for the guard against pages.
http::Asked asked_of(const http::Match& match, const std::vector<Route>& routes) {
  if (match.outcome != http::Match::Outcome::kRoute) return http::Asked::kData;
  const Caller caller = routes[match.route].handler.caller;
  if (caller == Caller::kProbe) return http::Asked::kHealth;
  return caller == Caller::kWatcher ? http::Asked::kPage : http::Asked::kData;
}

bool changes_state(Method method) { return method != Method::kGet && method != Method::kHead; }

}  // namespace

Application::Application(Services& services)
    : services_(services),
      routes_(routes(services.settings)),
      router_(routes_),
      cors_(services.settings.http.cors_origins) {}

Task<void> Application::serve(Request& request, Response& response) {
  std::string escaped;
  std::optional<http::Allowance> allowance;
  try {
    auto served = co_await dispatch(request, allowance);
    if (served) {
      response = std::move(*served);
    } else {
      fail_with(request, served.error(), response);
    }
  } catch (const std::exception& error) {
    escaped = error.what();
  } catch (...) {
    escaped = "not a std::exception";
  }
  if (!escaped.empty()) {
    log::error("handler_threw", {{"request", std::string(request.request_id)}, {"what", escaped}});
    response = http::problem(Error{ErrorCode::kInternal, "internal", {}, {}});
  }
  if (allowance) http::add_headers(response, *allowance);
  if (request.zone == Zone::kPublic) cors_.decorate(request, response);
}

Task<Result<Response>> Application::dispatch(Request& request, std::optional<http::Allowance>& allowance) {
  request.stage.enter_phase(RequestPhase::kParse);
  const http::Standing standing = standing_of(request);
  if (standing == http::Standing::kDenied)
    co_return fail(ErrorCode::kForbidden, "denied", {}, "this client is not served");
  FRESHET_CO_TRY(target, http::Target::parse(request.uri));
  FRESHET_CO_TRY(match, router_.match(request.method, target->path(), request.zone));
  if (request.zone == Zone::kInternal) {
    const auto& hosts = services_.settings.http.internal_hosts;
    FRESHET_CO_TRY(ours, http::check_internal(request, hosts, asked_of(*match, routes_)));
  }
  switch (match->outcome) {
    case http::Match::Outcome::kNotFound:
      services_.count(Refusal::kNotFound);
      co_return http::no_such_route();
    case http::Match::Outcome::kMethodNotAllowed:
      services_.count(Refusal::kMethod);
      co_return http::method_not_allowed(match->allow);
    case http::Match::Outcome::kOptions:
      co_return cors_.options(request, *match);
    case http::Match::Outcome::kRoute:
      break;
  }
  const Route& route = routes_[match->route];
  request.stage.route = static_cast<std::uint16_t>(match->route + 1);
  request.stage.enter_phase(RequestPhase::kParse);
  request.budget = budget_of(route);
  if (came_too_late(request, services_.settings.gateway))
    co_return fail(ErrorCode::kUnavailable, "over_budget");
  if (auto admitted = admit(request, route); !admitted) co_return tl::unexpected(admitted.error());
  const auto verified = services_.identity.verify(request, wall_now());
  Call call{services_, request, *target, *match, verified, standing == http::Standing::kAllowed};
  allowance = take(call, route.handler.cost);
  if (allowance && !allowance->granted) {
    services_.count(kRefusedBy[static_cast<std::size_t>(allowance->kind)]);
    co_return http::problem(Error{ErrorCode::kRateLimited, "rate_limited", {}, {}}, allowance->wait);
  }
  auto answered = co_await route.handler.handle(call);
  if (answered && route.method == Method::kGet && !is_open(route.handler.caller))
    http::make_conditional(request, *answered);
  if (allowance && call.searched) {
    const http::Payer payer = payer_of(call);
    allowance =
        services_.limits.charge(route.handler.cost, payer, *call.searched, allowance, http::monotonic_us());
  }
  co_return answered;
}

// Who cannot be verified has the buckets of nobody in particular.
http::Payer Application::payer_of(const Call& call) const {
  const http::Verified nobody;
  return services_.limits.payer(call.request, call.verified ? *call.verified : nobody);
}

// The one place that takes from buckets before a handler runs; dispatch() charges what it cost.
std::optional<http::Allowance> Application::take(const Call& call, const http::Cost& cost) {
  if (call.request.zone != Zone::kPublic || call.exempt) return std::nullopt;
  if (!cost.with_parameter.empty() && !call.target.parameter(cost.with_parameter)) return std::nullopt;
  return services_.limits.take(cost, payer_of(call), http::monotonic_us());
}

// The lists are of the internet's clients; who may reach the internal server is the site's own.
http::Standing Application::standing_of(const Request& request) const {
  if (services_.clients == nullptr || request.zone != Zone::kPublic) return http::Standing::kCommon;
  return http::standing(*services_.clients, request.remote_addr, request.user_agent);
}

// What a route asks of every request, before its handler sees it.
Result<void> Application::admit(const Request& request, const Route& route) {
  const Caller caller = route.handler.caller;
  if (request.zone == Zone::kPublic) {
    if (changes_state(request.method) && cors_.is_foreign(request))
      return fail(ErrorCode::kForbidden, "foreign_origin", {},
                  "the Origin is neither this site's own nor one of http.cors_origins");
  } else if (services_.signatures != nullptr && !services_.signatures->empty() && !is_open(caller)) {
    const http::Signed what{method_name(request.method), request.uri, request.body};
    if (auto ok = services_.signatures->verify(request.authorization, what, wall_now()); !ok) return ok;
  }
  const std::size_t limit = body_limit(route.body_limit);
  if (request.body.size() > limit)
    return fail(ErrorCode::kTooLarge, "too_large", {},
                "the body has at most " + std::to_string(limit) + " bytes");
  // On the internal server a beacon is one of its own pages', which the Origin says: no other got
  // here.
  const bool beacon = caller == Caller::kBeacon && (request.zone == Zone::kPublic || !request.origin.empty());
  if (!beacon && (sent_unasked(request) || is_no_json(request)))
    return fail(ErrorCode::kInvalid, "bad_content_type", {},
                "application/json, or application/x-ndjson for lines");
  return {};
}

std::size_t Application::body_limit(std::size_t of_route) const {
  const GatewaySettings& gateway = services_.settings.gateway;
  if (of_route == kBulkBody) return gateway.max_bulk_body_bytes;
  if (of_route != 0 && of_route < kBody) return std::min(of_route, gateway.max_body_bytes);
  return gateway.max_body_bytes;  // a route without a body ignores one
}

void Application::fail_with(const Request& request, const Error& error, Response& response) {
  count_refusal(services_, error);
  if (error.code == ErrorCode::kInternal) {
    log::error("request_failed", {{"request", std::string(request.request_id)},
                                  {"reason", std::string(error.reason)},
                                  {"detail", error.detail}});
  }
  // A network has another article that nobody vouched for each quarter of an hour.
  constexpr seconds kNextUnknown{900};
  response = error.reason == "too_many_unknown" ? http::problem(error, kNextUnknown) : http::problem(error);
}

void Application::refuse_overload(const Request& request, Response& response) {
  response = http::problem(Error{ErrorCode::kUnavailable, "overloaded", {}, {}});
  if (request.zone == Zone::kPublic) cors_.decorate(request, response);
}

void Application::refuse_late(const Request& request, Response& response) {
  const bool reads = request.method == Method::kGet || request.method == Method::kHead;
  const ErrorCode code = reads ? ErrorCode::kUnavailable : ErrorCode::kUnknownOutcome;
  services_.count(Refusal::kDeadline);
  auto left = request.if_late ? request.if_late() : std::nullopt;
  response = left ? std::move(*left) : http::problem(Error{code, "over_budget", {}, {}});
  if (request.zone == Zone::kPublic) cors_.decorate(request, response);
}

}  // namespace freshet::handlers
