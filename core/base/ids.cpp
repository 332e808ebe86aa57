#include "core/base/ids.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace freshet {
namespace {

// NFC at most triples the bytes of a text, and shrinks it to no less than a third.
constexpr std::size_t kMaxInputBytes = 3 * kMaxIdBytes;
constexpr char32_t kZeroWidthNonJoiner = 0x200C, kZeroWidthJoiner = 0x200D;

tl::unexpected<Error> bad_id(std::string_view member, std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_id", std::string(member), std::move(detail));
}

// The kind of characters that an id must not contain and `c` is one of; "" if it may contain `c`.
std::string_view problem_of(char32_t c) {
  if (utf8::is_control(c)) return "control characters";
  if (c != ' ' && utf8::is_white_space(c)) return "white space other than spaces";
  if (utf8::is_invisible(c) && c != kZeroWidthJoiner && c != kZeroWidthNonJoiner)
    return "invisible or bidirectional control characters";
  return {};
}

// Counts the characters, and checks them and their encoding. `noun`: "an id", "a tag" or "an
// author".
Result<std::size_t> check_characters(std::string_view text, std::string_view member,
                                     const std::string& noun) {
  if (text.empty()) return bad_id(member, noun + " must not be empty");
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size(); ++characters) {
    const utf8::CodePoint c = utf8::decode(text, at);
    if (c.size == 0) return bad_id(member, noun + " must be valid UTF-8");
    if (const std::string_view problem = problem_of(c.value); !problem.empty())
      return bad_id(member, noun + " must not contain " + std::string(problem));
    at += c.size;
  }
  if (text.front() == ' ' || text.back() == ' ')
    return bad_id(member, noun + " must not begin or end with a space");
  return characters;
}

bool has_dot_segment(std::string_view id) {
  for (std::size_t begin = 0; begin <= id.size();) {
    const std::size_t end = std::min(id.find('/', begin), id.size());
    const std::string_view segment = id.substr(begin, end - begin);
    if (segment == "." || segment == "..") return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

Result<std::string> parse_id(std::string_view text, std::string_view member) {
  const std::string noun = "an id";
  const auto too_long = [&] { return bad_id(member, noun + " must not exceed 512 bytes"); };
  if (text.size() > kMaxInputBytes) return too_long();
  if (auto ok = check_characters(text, member, noun); !ok) return tl::unexpected(ok.error());
  if (has_dot_segment(text)) return bad_id(member, noun + R"( must not contain the segment "." or "..")");
  std::string id = utf8::to_nfc(text);
  if (id.size() > kMaxIdBytes) return too_long();
  return id;
}

Result<std::string> parse_tag(std::string_view text, std::string_view member) {
  const std::string noun = "a tag";
  std::string tag = utf8::single_spaced(text);
  FRESHET_TRY(characters, check_characters(tag, member, noun));
  FRESHET_TRY(folded_characters, check_characters(utf8::fold(tag), member, noun));
  if (std::max(*characters, *folded_characters) > kMaxTagCharacters)
    return bad_id(member, "a tag must not exceed 64 characters");
  return tag;
}

Result<std::string> parse_author(std::string_view text, std::string_view member) {
  const std::string noun = "an author";
  if (text.size() > kMaxInputBytes) return bad_id(member, noun + " must not exceed 512 bytes");
  if (!utf8::is_valid(text)) return bad_id(member, noun + " must be valid UTF-8");
  std::string buffer;
  const std::string_view key = author_key({}, text, buffer);
  if (key.size() > kMaxIdBytes) return bad_id(member, noun + " must not exceed 512 bytes");
  if (auto ok = check_characters(key, member, noun); !ok) return tl::unexpected(ok.error());
  return std::string(key);
}

std::string_view author_key(std::string_view author_id, std::string_view author, std::string& buffer) {
  std::string_view key = utf8::fold(author_id.empty() ? author : author_id, buffer);
  while (key.starts_with(' ')) key.remove_prefix(1);
  while (key.ends_with(' ')) key.remove_suffix(1);
  return key;
}

}  // namespace freshet
