// What the parsers of all routes share.
#pragma once

#include <string>

#include "core/base/json.h"

namespace freshet::handlers {

inline constexpr std::int64_t kMaxLimit = 100;  // entries of a page

// The JSON object in `text`, which is changed and must outlive the value, as must `document`.
inline Result<json::Value> read_object(json::Document& document, std::string& text) {
  FRESHET_TRY(parsed, document.parse(text));
  return json::root_object(document);
}

}  // namespace freshet::handlers
