// Errors as clients see them: application/problem+json (RFC 9457) with the members type, title,
// status, detail, code, msg, and member when one is at fault. This is the one place where an error
// becomes an HTTP status.
//
//   {"type":"urn:freshet:problem:bad_id","title":"An id is missing or malformed","status":400,
//    "detail":"an id has no white space","code":"bad_id","msg":"articleId: an id has no white
//    space", "member":"articleId"}
#pragma once

#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "fcgi/gateway/request.h"

namespace freshet::http {

// A reason (Error::reason, the member `code`) and what it means. Stable: clients compare them.
struct ProblemType {
  std::string_view code;
  std::string_view title;
};

// Every reason that a client can be served, in alphabetical order. An error with a reason that is
// not here is served under its status' own: "internal" for 500, "unavailable" for 503 and so on.
std::span<const ProblemType> problem_types();

// 400..503, see ErrorCode.
int http_status(ErrorCode code);

// The reply to a failed request: of its code's status, or 415 for "bad_content_type". Details of
// errors above 413 are for the log and not served, but for "not_ready". 503 and 429 carry
// Retry-After, 401 WWW-Authenticate; nothing of this may be cached. Control characters in texts are
// escaped as JSON does.
Response problem(const Error& error, seconds retry_after = seconds{1});

// 404 "no_route" and 405 "method_not_allowed", what the router finds; `allow` as in Match.
Response no_such_route();
Response method_not_allowed(std::string_view allow);

}  // namespace freshet::http
