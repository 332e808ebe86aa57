#include "fcgi/http/problem.h"

#include <algorithm>
#include <array>

#include "core/base/json.h"
#include "fcgi/http/signature.h"

namespace freshet::http {
namespace {

struct StatusRow {
  ErrorCode code;
  int status;
  std::string_view fallback_code;  // used if the error's own code is not public
  bool show_detail;
};

// In the order of ErrorCode.
constexpr std::array kStatuses{
    StatusRow{ErrorCode::kInvalid, 400, "invalid", true},
    StatusRow{ErrorCode::kUnauthorised, 401, "unauthorised", true},
    StatusRow{ErrorCode::kForbidden, 403, "forbidden", true},
    StatusRow{ErrorCode::kNotFound, 404, "not_found", true},
    StatusRow{ErrorCode::kConflict, 409, "conflict", true},
    StatusRow{ErrorCode::kTooLarge, 413, "too_large", true},
    StatusRow{ErrorCode::kRateLimited, 429, "rate_limited", false},
    StatusRow{ErrorCode::kUnavailable, 503, "unavailable", false},
    StatusRow{ErrorCode::kUnknownOutcome, 503, "unknown_outcome", false},
    StatusRow{ErrorCode::kInternal, 500, "internal", false},
};

// The kInvalid error with a status of its own, 415.
constexpr std::string_view kBadContentType = "bad_content_type";

// The only 503 whose detail is served: it is meant for operators.
constexpr std::string_view kNotReady = "not_ready";

constexpr std::array kProblemTypes{
    ProblemType{"bad_action", "The action is unknown"},
    ProblemType{"bad_body", "The body is not a JSON object"},
    ProblemType{"bad_boolean", "A member is not true or false"},
    ProblemType{kBadContentType, "This route does not accept this content type"},
    ProblemType{"bad_exclude", "The exclusion mode is unknown"},
    ProblemType{"bad_id", "An id is missing or malformed"},
    ProblemType{"bad_item", "An item is malformed"},
    ProblemType{"bad_json", "The body is not valid JSON within the limits"},
    ProblemType{"bad_kind", "The kind is unknown"},
    ProblemType{"bad_list", "A member is not an array, or its length is out of range"},
    ProblemType{"bad_number", "A number is missing, malformed or out of range"},
    ProblemType{"bad_page", "The page token is malformed, forged or belongs to another reader"},
    ProblemType{"bad_parameter", "A query parameter has an invalid value"},
    ProblemType{"bad_signature", "The request is not signed with a key of the internal server"},
    ProblemType{"bad_string", "A string is missing or too long"},
    ProblemType{"bad_target", "The request target is malformed"},
    ProblemType{"bad_time", "A time is malformed or out of range"},
    ProblemType{"bad_token", "The token is malformed, forged or signed with an unknown key"},
    ProblemType{"bad_url", "A URL is neither relative nor http or https"},
    ProblemType{"bad_user", "The verified user is not a valid id"},
    ProblemType{"busy", "This worker has too many requests in progress"},
    ProblemType{"conflict", "The request conflicts with the current state"},
    ProblemType{"denied", "This client is blocked"},
    ProblemType{"expired_token", "The token has expired"},
    ProblemType{"forbidden", "The request is not allowed"},
    ProblemType{"foreign_origin", "Pages of other sites may not send this request"},
    ProblemType{"hidden_item", "The item is hidden or deleted"},
    ProblemType{"internal", "Internal error"},
    ProblemType{"invalid", "The request is invalid"},
    ProblemType{"method_not_allowed", "This route does not support this method"},
    ProblemType{"no_model", "This host does not publish its model"},
    ProblemType{"no_route", "No such route"},
    ProblemType{"no_visitor", "The request has no valid visitor cookie"},
    ProblemType{"not_found", "Not found"},
    ProblemType{kNotReady, "A dependency listed in ready.require is missing"},
    ProblemType{"origin_not_allowed", "Pages of that origin may not call this service"},
    ProblemType{"rate_limited", "Too many requests"},
    ProblemType{"rebuild_running", "A rebuild is already running"},
    ProblemType{"spool_full", "The store is unavailable and the write queue is full"},
    ProblemType{"stale_signature", "The signature is expired or from the future"},
    ProblemType{"stream_full", "Too many writes are waiting to be recorded"},
    ProblemType{"too_large", "The body is too large"},
    ProblemType{"too_many_follows", "This reader follows the maximum number of authors"},
    ProblemType{"too_many_pending", "Too many impressions of this reader are waiting to be recorded"},
    ProblemType{"unauthorised", "The client could not be authenticated"},
    ProblemType{"unavailable", "Part of the service is unavailable; nothing was changed"},
    ProblemType{"unexpected_body", "This route has no body"},
    ProblemType{"unknown_channel", "No such channel"},
    ProblemType{"unknown_host", "The internal server does not have this host name"},
    ProblemType{"unknown_item", "No such item"},
    ProblemType{"unknown_job", "No such job, or it ended long ago"},
    ProblemType{"unknown_member", "The body has a member that this route does not know"},
    ProblemType{"unknown_outcome", "No answer arrived in time; the change may or may not have been made"},
    ProblemType{"unknown_parameter", "The query has a parameter that this route does not know"},
    ProblemType{"unverified_quota", "Too many unverified articles"},
    ProblemType{"write_conflict", "The item is being changed by another request"},
};

const ProblemType* find_problem_type(std::string_view code) {
  const auto found = std::ranges::lower_bound(kProblemTypes, code, {}, &ProblemType::code);
  return found != kProblemTypes.end() && found->code == code ? &*found : nullptr;
}

const StatusRow& status_row(ErrorCode code) {
  static_assert(kStatuses.size() == static_cast<std::size_t>(ErrorCode::kInternal) + 1);
  return kStatuses[static_cast<std::size_t>(code)];
}

Response render(int status, const PublicError& error) {
  Response response;
  response.status = status;
  response.content_type = "application/problem+json";
  std::string message(error.member);
  message.append(error.member.empty() ? "" : ": ").append(error.detail);
  json::Writer writer(response.body);
  writer.begin_object().key("type").string(std::string("urn:freshet:problem:").append(error.type.code));
  writer.key("title").string(error.type.title).key("status").integer(status);
  writer.key("detail").string(error.detail);
  writer.key("code").string(error.type.code).key("msg").string(message);
  if (!error.member.empty()) writer.key("member").string(error.member);
  writer.end_object();
  response.add_header("Cache-Control", "no-store");
  return response;
}

}  // namespace

std::span<const ProblemType> problem_types() { return kProblemTypes; }

int http_status(ErrorCode code) { return status_row(code).status; }

PublicError public_error(const Error& error) {
  const StatusRow& status = status_row(error.code);
  const ProblemType* type = find_problem_type(error.reason);
  if (type == nullptr || error.code == ErrorCode::kInternal) type = find_problem_type(status.fallback_code);
  const bool shows_detail = status.show_detail || type->code == kNotReady;
  return {*type, shows_detail ? error.member : std::string_view(),
          shows_detail && !error.detail.empty() ? error.detail : type->title};
}

Response problem(const Error& error, seconds retry_after) {
  const StatusRow& status = status_row(error.code);
  const PublicError shown = public_error(error);
  Response response = render(shown.type.code == kBadContentType ? 415 : status.status, shown);
  if (status.status == 503 || status.status == 429) {
    response.add_header("Retry-After", std::to_string(std::max<std::int64_t>(1, retry_after.count())));
  }
  if (status.status == 401) {
    const bool by_signature = error.reason == "bad_signature" || error.reason == "stale_signature";
    response.add_header("WWW-Authenticate", by_signature ? kSignatureScheme : "Bearer");
  }
  return response;
}

Response no_such_route() {
  const ProblemType& type = *find_problem_type("no_route");
  return render(404, {type, {}, type.title});
}

Response method_not_allowed(std::string_view allow) {
  const ProblemType& type = *find_problem_type("method_not_allowed");
  Response response = render(405, {type, {}, type.title});
  response.add_header("Allow", allow);
  return response;
}

}  // namespace freshet::http
