// The JSON object that is the body of a request.
#pragma once

#include "core/base/json.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// Parses the body, which is modified, and checks the names of its members. `document` and the
// request must outlive the value. Errors: as Document::parse, kInvalid "bad_body" and
// "unknown_member".
inline Result<json::Value> read_body(Call& call, json::Document& document, const json::Limits& limits = {}) {
  FRESHET_TRY(body, read_object(document, call.request.body, limits));
  FRESHET_TRY(checked, call.names.check_members(*body, call.known_members));
  return *body;
}

}  // namespace freshet::handlers
