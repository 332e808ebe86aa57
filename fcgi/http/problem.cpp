#include "fcgi/http/problem.h"

#include <algorithm>
#include <array>

#include "core/base/json.h"
#include "fcgi/http/signature.h"

namespace freshet::http {
namespace {

struct Status {
  ErrorCode code;
  int status;
  std::string_view reason;  // when the error's own is not a public one
  bool show_detail;
};

// In the order of ErrorCode.
constexpr std::array kStatuses{
    Status{ErrorCode::kInvalid, 400, "invalid", true},
    Status{ErrorCode::kUnauthorised, 401, "unauthorised", true},
    Status{ErrorCode::kForbidden, 403, "forbidden", true},
    Status{ErrorCode::kNotFound, 404, "not_found", true},
    Status{ErrorCode::kConflict, 409, "conflict", true},
    Status{ErrorCode::kTooLarge, 413, "too_large", true},
    Status{ErrorCode::kRateLimited, 429, "rate_limited", false},
    Status{ErrorCode::kUnavailable, 503, "unavailable", false},
    Status{ErrorCode::kUnknownOutcome, 503, "unknown_outcome", false},
    Status{ErrorCode::kInternal, 500, "internal", false},
};

// Of kInvalid too, but with a status of its own.
constexpr std::string_view kWrongType = "bad_content_type";

// Whose detail is for operators.
constexpr std::string_view kNotReady = "not_ready";

constexpr std::array kReasons{
    Reason{"bad_action", "The action is not one of those there are"},
    Reason{"bad_body", "The body is not a JSON object"},
    Reason{"bad_boolean", "A member is not true or false"},
    Reason{kWrongType, "This route does not take that content type"},
    Reason{"bad_exclude", "The exclusion is not one of those there are"},
    Reason{"bad_id", "An id is missing or malformed"},
    Reason{"bad_item", "An item is malformed"},
    Reason{"bad_json", "The body is not valid JSON within the limits"},
    Reason{"bad_kind", "The kind is not one of those there are"},
    Reason{"bad_list", "A member is not an array within its limits"},
    Reason{"bad_number", "A number is missing, of the wrong kind or out of range"},
    Reason{"bad_page", "The page token is malformed, forged or another reader's"},
    Reason{"bad_parameter", "A query parameter is not one of the values it may have"},
    Reason{"bad_query", "The query cannot be understood"},
    Reason{"bad_signature", "The request is not signed by a key of the internal server"},
    Reason{"bad_string", "A string is missing or too long"},
    Reason{"bad_target", "The request target is malformed"},
    Reason{"bad_time", "A time is malformed or out of range"},
    Reason{"bad_token", "The token is malformed, forged or of an unknown key"},
    Reason{"bad_url", "A URL is neither relative nor of http or https"},
    Reason{"bad_user", "The verified user is not a valid id"},
    Reason{"busy", "Too many requests are inside this worker"},
    Reason{"conflict", "The request does not fit the state of things"},
    Reason{"denied", "This client is not served"},
    Reason{"expired_token", "The token has expired"},
    Reason{"forbidden", "This is not allowed"},
    Reason{"foreign_origin", "A page of another site may not do this"},
    Reason{"hidden_item", "The item is hidden or deleted"},
    Reason{"internal", "The service failed"},
    Reason{"invalid", "The request is wrong"},
    Reason{"item_busy", "The item is being changed by another request"},
    Reason{"method_not_allowed", "This route does not take that method"},
    Reason{"no_model", "This host gives its model to nobody"},
    Reason{"no_route", "There is no such route"},
    Reason{"not_found", "There is no such thing"},
    Reason{kNotReady, "What ready.require lists is missing"},
    Reason{"origin_not_allowed", "Pages of that origin may not call this service"},
    Reason{"rate_limited", "Too many requests"},
    Reason{"rebuild_running", "A rebuild is already running"},
    Reason{"spool_full", "The store is away and the queue for its return is full"},
    Reason{"stale_signature", "The request was signed at another time"},
    Reason{"stream_full", "Too many writes wait to be recorded"},
    Reason{"too_large", "The body is too large"},
    Reason{"too_many_follows", "This reader follows as many authors as one can"},
    Reason{"too_many_pending", "Too many impressions of this reader wait to be recorded"},
    Reason{"too_many_unknown", "Too many articles are reported that nobody vouched for"},
    Reason{"unauthorised", "Who is asking could not be established"},
    Reason{"unavailable", "A part of the service is away; nothing was changed"},
    Reason{"unknown_channel", "There is no such channel"},
    Reason{"unknown_host", "The internal server is not known by that name"},
    Reason{"unknown_item", "There is no such item"},
    Reason{"unknown_job", "There is no such job, or it ended long ago"},
    Reason{"unknown_outcome", "No answer came in time; the change may or may not have happened"},
};

const Reason* find_reason(std::string_view code) {
  const auto found = std::ranges::lower_bound(kReasons, code, {}, &Reason::code);
  return found != kReasons.end() && found->code == code ? &*found : nullptr;
}

const Status& row(ErrorCode code) {
  static_assert(kStatuses.size() == static_cast<std::size_t>(ErrorCode::kInternal) + 1);
  return kStatuses[static_cast<std::size_t>(code)];
}

Response render(int status, const Reason& reason, std::string_view member, std::string_view detail) {
  Response response;
  response.status = status;
  response.content_type = "application/problem+json";
  std::string message(member);
  message.append(member.empty() ? "" : ": ").append(detail.empty() ? reason.title : detail);
  json::Writer writer(response.body);
  writer.begin_object().key("type").string(std::string("urn:freshet:problem:").append(reason.code));
  writer.key("title").string(reason.title).key("status").integer(status);
  writer.key("detail").string(detail.empty() ? reason.title : detail);
  writer.key("code").string(reason.code).key("msg").string(message);
  if (!member.empty()) writer.key("member").string(member);
  writer.end_object();
  response.add_header("Cache-Control", "no-store");
  return response;
}

}  // namespace

std::span<const Reason> reasons() { return kReasons; }

int status_of(ErrorCode code) { return row(code).status; }

Response problem(const Error& error, seconds retry_after) {
  const Status& status = row(error.code);
  const Reason* reason = find_reason(error.reason);
  if (reason == nullptr || error.code == ErrorCode::kInternal) reason = find_reason(status.reason);
  const bool shown = status.show_detail || reason->code == kNotReady;
  Response response = render(reason->code == kWrongType ? 415 : status.status, *reason,
                             shown ? error.member : "", shown ? error.detail : "");
  if (status.status == 503 || status.status == 429) {
    response.add_header("Retry-After", std::to_string(std::max<std::int64_t>(1, retry_after.count())));
  }
  if (status.status == 401) {
    const bool by_signature = error.reason == "bad_signature" || error.reason == "stale_signature";
    response.add_header("WWW-Authenticate", by_signature ? kSignatureScheme : "Bearer");
  }
  return response;
}

Response no_such_route() { return render(404, *find_reason("no_route"), {}, {}); }

Response method_not_allowed(std::string_view allow) {
  Response response = render(405, *find_reason("method_not_allowed"), {}, {});
  response.add_header("Allow", allow);
  return response;
}

}  // namespace freshet::http
