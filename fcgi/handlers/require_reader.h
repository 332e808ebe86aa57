// For routes that belong to one reader.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// `member`: the name of the claim.
inline tl::unexpected<Error> reader_required(const Call& call, std::string_view member) {
  const char* detail = "a signed-in reader is required";
  if (!call.services.identity.trusts_claims(call.request.zone))
    detail = call.services.settings.readers.anonymous
                 ? "a signed-in reader or a visitor cookie (POST /api/visitor) is required"
                 : "Sign in first: anonymous visitors have no history here.";
  return fail(ErrorCode::kInvalid, "bad_id", std::string(member), detail);
}

// The reader that identity finds; a claimed one counts only where Identity trusts claims. Errors:
// as Call::identify, and kInvalid "bad_id" (`member`) for a request without a reader.
inline Result<ReaderId> require_reader(const Call& call, const ReaderId& claimed,
                                       std::string_view member = "userId") {
  auto principal = call.identify({claimed, {}});
  if (!principal) return tl::unexpected(principal.error());
  if (principal->reader.empty()) return reader_required(call, member);
  return std::move(principal->reader);
}

}  // namespace freshet::handlers
