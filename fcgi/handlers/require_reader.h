// For routes that belong to one reader.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// The reader that identity finds; a claimed one counts only where Identity trusts claims. Errors:
// as Identity::identify, and kInvalid "bad_id" (`member`, the name of the claim) for an anonymous
// request.
inline Result<ReaderId> require_reader(const Call& call, const ReaderId& claimed,
                                       std::string_view member = "userId") {
  auto principal = call.identify({claimed, {}});
  if (!principal) return tl::unexpected(principal.error());
  if (principal->reader.empty())
    return fail(ErrorCode::kInvalid, "bad_id", std::string(member), "a signed-in reader is required");
  return std::move(principal->reader);
}

}  // namespace freshet::handlers
