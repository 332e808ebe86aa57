// What every fallible operation returns: Result<T>, a value or an Error. Exceptions are for
// start-up only.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace freshet {

// The few kinds of failure the service knows; fcgi/http/problem.cpp maps each to one HTTP status.
enum class ErrorCode {
  kInvalid,         // 400: the request is wrong; Error::member names the part
  kUnauthorised,    // 401: who is asking could not be established
  kForbidden,       // 403: established, but not allowed
  kNotFound,        // 404
  kConflict,        // 409
  kTooLarge,        // 413
  kRateLimited,     // 429
  kUnavailable,     // 503: a dependency is away or slow; nothing was changed
  kUnknownOutcome,  // 503: a write was sent but no reply came in time; it may have happened
  kInternal,        // 500: our fault
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string_view
      reason;  // stable word for programs, a string literal: "bad_id", "unknown_item", "redis_timeout"
  std::string member;  // the request member at fault, empty when none
  std::string detail;  // for people; served for kInvalid..kTooLarge, only logged for the rest
};

// A dependency is away or slow, whether or not what was asked of it happened.
inline bool is_unavailable(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kUnknownOutcome;
}

// Whether what failed with this may be kept and applied later. `idempotent`: applied twice it
// counts once. What the recorder's stream has no room for must be refused: a spool goes there too.
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

// FRESHET_TRY(name, expression): declares `name`, the Result of the expression, and returns its
// error if it has one. Two statements, so it stands in braces, and `name` is used as `*name`.
// FRESHET_CO_TRY: the same in a coroutine.
#define FRESHET_TRY(name, ...) \
  auto name = __VA_ARGS__;     \
  if (!name) return tl::unexpected(std::move(name).error())
#define FRESHET_CO_TRY(name, ...) \
  auto name = __VA_ARGS__;        \
  if (!name) co_return tl::unexpected(std::move(name).error())
