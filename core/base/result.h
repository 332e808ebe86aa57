// Result<T>, returned by every fallible operation: a value or an Error. Exceptions are used only at
// start-up.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace freshet {

// The kinds of failure; fcgi/http/problem.cpp maps each to an HTTP status.
enum class ErrorCode {
  kInvalid,         // 400: malformed request; Error::member names the part at fault
  kUnauthorised,    // 401: the caller could not be authenticated
  kForbidden,       // 403: authenticated, but not allowed
  kNotFound,        // 404
  kConflict,        // 409
  kTooLarge,        // 413
  kRateLimited,     // 429
  kUnavailable,     // 503: a dependency is unavailable or slow; nothing was changed
  kUnknownOutcome,  // 503: a write was sent but no reply arrived in time; it may have been applied
  kInternal,        // 500: a bug
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string_view
      reason;  // stable code for programs, a string literal: "bad_id", "unknown_item", "redis_timeout"
  std::string member;  // the request member at fault; empty if none
  std::string detail;  // for humans; sent for kInvalid..kTooLarge, otherwise only logged
};

// A dependency is unavailable or slow. The operation may have been applied (kUnknownOutcome).
inline bool is_unavailable(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kUnknownOutcome;
}

// Returns whether an operation that failed with this error may be spooled and applied later.
// `idempotent`: applying it twice counts once. "stream_full" must be refused, since a spooled write
// ends up in the same stream.
inline bool can_spool(const Error& error, bool idempotent) {
  if (error.code == ErrorCode::kUnavailable) return error.reason != "stream_full";
  return error.code == ErrorCode::kUnknownOutcome && idempotent;
}

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string_view reason, std::string member = {},
                                  std::string detail = {}) {
  return tl::unexpected<Error>(Error{code, reason, std::move(member), std::move(detail)});
}

}  // namespace freshet

// FRESHET_TRY(name, expression) declares `name` as the expression's Result and returns its error if
// it has one; use the value as `*name`. It expands to two statements, so put it inside braces.
// FRESHET_CO_TRY does the same in a coroutine.
#define FRESHET_TRY(name, ...) \
  auto name = __VA_ARGS__;     \
  if (!name) return tl::unexpected(std::move(name).error())
#define FRESHET_CO_TRY(name, ...) \
  auto name = __VA_ARGS__;        \
  if (!name) co_return tl::unexpected(std::move(name).error())
