// Errors as clients see them: application/problem+json (RFC 9457) with the members type, title,
// status, detail, code, msg, and `member` if one is at fault. The only place where an error becomes
// an HTTP status.
//
//   {"type":"urn:freshet:problem:bad_id","title":"An id is missing or malformed","status":400,
//    "detail":"an id must not contain white space","code":"bad_id",
//    "msg":"articleId: an id must not contain white space","member":"articleId"}
#pragma once

#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "fcgi/gateway/request.h"

namespace freshet::http {

// An error code (Error::reason, the member `code`) and its title. Stable: clients compare codes.
struct ProblemType {
  std::string_view code;
  std::string_view title;
};

// Every code that a client can receive, in alphabetical order. An error with another code is served
// under the default code of its status: "internal" for 500, "unavailable" for 503 and so on.
std::span<const ProblemType> problem_types();

// 400..503, see ErrorCode.
int http_status(ErrorCode code);

// The part of an error that a client may see. The texts may point into the error.
struct PublicError {
  ProblemType type;
  std::string_view member;  // empty if none
  std::string_view detail;  // the type's title if the error has none, or none that is shown
};
PublicError public_error(const Error& error);

// The reply to a failed request, with the status of its error code, or 415 for "bad_content_type".
// Details of errors above 413 are only logged, except for "not_ready". 503 and 429 carry
// Retry-After, 401 carries WWW-Authenticate; no problem may be cached. Control characters are
// escaped as in JSON.
Response problem(const Error& error, seconds retry_after = seconds{1});

// The router's 404 "no_route" and 405 "method_not_allowed"; `allow` as in Match.
Response no_such_route();
Response method_not_allowed(std::string_view allow);

}  // namespace freshet::http
