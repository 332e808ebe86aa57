#include "core/base/ids.h"

#include <algorithm>
#include <array>

#include "core/base/utf8.h"

namespace freshet {
namespace {

tl::unexpected<Error> bad_id(std::string_view member, std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_id", std::string(member), std::move(detail));
}

}  // namespace

Result<void> check_id(std::string_view text, std::string_view member) {
  if (text.empty()) return bad_id(member, "an id must not be empty");
  if (text.size() > kMaxIdBytes) return bad_id(member, "an id must not exceed 128 bytes");
  for (std::size_t at = 0; at < text.size();) {
    const utf8::CodePoint c = utf8::decode(text, at);
    if (c.size == 0) return bad_id(member, "an id must be valid UTF-8");
    if (utf8::is_control(c.value)) return bad_id(member, "an id must not contain control characters");
    if (utf8::is_white_space(c.value)) return bad_id(member, "an id must not contain white space");
    if (utf8::is_invisible(c.value))
      return bad_id(member, "an id must not contain invisible or bidirectional control characters");
    if (c.value == ':' || c.value == '{' || c.value == '}')
      return bad_id(member, "an id must not contain ':', '{' or '}'");
    at += c.size;
  }
  return {};
}

}  // namespace freshet
