// Identifiers of items (articles, topics) and readers (users, agents, customers, visitors), tags
// and authors, as API.md defines them.
//
// An id is 1–512 bytes of UTF-8 in Normalization Form C; parse() normalizes. It contains no control
// characters, no white space other than single-byte spaces inside, and no invisible characters
// other than zero-width joiners. None of its segments between slashes is "." or "..", which HTTP
// clients and servers resolve in paths. Ids are compared bytewise. Since ids contain no control
// characters, these serve to tell ids apart from what is stored with them:
//   U+001F  separates ids in lists (kIdSeparator)
//   U+001E  marks values that are stored where ids are but are not ids: the marks of timelines and
//           pages, the epoch of an erased reader (kIdMark)
//   U+001D  begins the ids of anonymous readers, which no request can name
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/result.h"

namespace freshet {

inline constexpr std::size_t kMaxIdBytes = 512;
inline constexpr std::size_t kMaxTagCharacters = 64;
inline constexpr char kIdSeparator = '\x1f', kIdMark = '\x1e';

// Parse an id, a tag and an author's id. Errors: kInvalid "bad_id", with `member` as given.
// In Normalization Form C. ASCII costs one allocation at most.
Result<std::string> parse_id(std::string_view text, std::string_view member);
// As it was put, single-spaced: up to kMaxTagCharacters characters, of which an id could consist,
// also when folded.
Result<std::string> parse_tag(std::string_view text, std::string_view member);
// The author's key. It has the characters and the length of an id, but `text` need not: folding
// removes invisible characters and turns other white space into spaces.
Result<std::string> parse_author(std::string_view text, std::string_view member);
// The key of an item's author, by its author_id or, if that is empty, the author's name: folded,
// without spaces at the ends. Views `buffer` or an argument. Equal to the AuthorId of the same text
// if that is one.
std::string_view author_key(std::string_view author_id, std::string_view author, std::string& buffer);

struct AuthorTag;
struct TagTag;

template <class Tag>
class Id {
 public:
  Id() = default;
  // O(bytes). `member` names the request member in the error.
  static Result<Id> parse(std::string_view text, std::string_view member) {
    auto parsed = std::is_same_v<Tag, TagTag>      ? parse_tag(text, member)
                  : std::is_same_v<Tag, AuthorTag> ? parse_author(text, member)
                                                   : parse_id(text, member);
    if (!parsed) return tl::unexpected(std::move(parsed.error()));
    return Id(std::move(*parsed));
  }
  // For values that were validated before they were stored, such as those read from Redis.
  static Id trusted(std::string text) { return Id(std::move(text)); }

  const std::string& str() const { return text_; }
  std::string_view view() const { return text_; }
  bool empty() const { return text_.empty(); }
  auto operator<=>(const Id&) const = default;

 private:
  explicit Id(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

using ItemId = Id<struct ItemTag>;
using ReaderId = Id<struct ReaderTag>;    // users, agents and customers share one namespace
using VisitorId = Id<struct VisitorTag>;  // counted by UV and deduplication; see fcgi/http/identity.h
using SessionId = Id<struct SessionTag>;
using EventId = Id<struct EventTag>;
using AuthorId = Id<AuthorTag>;  // the key of an author, by which readers follow them
using TagName = Id<TagTag>;      // a tag as parse_tag() returns it; compared by utf8::fold()

// The reader that a visitor cookie names (readers.anonymous): this byte, then the visitor's id. No
// id that a request contains may have it.
inline constexpr char kAnonymousMark = '\x1d';
inline ReaderId anonymous_reader(const VisitorId& visitor) {
  return ReaderId::trusted(kAnonymousMark + visitor.str());
}
constexpr bool is_anonymous_reader(std::string_view reader) { return reader.starts_with(kAnonymousMark); }
inline bool is_anonymous_reader(const ReaderId& reader) { return is_anonymous_reader(reader.view()); }

// True if `text` stands for "no id" in a request: it is empty or, for a reader, 0. Templates print
// these for users who are not logged in; WordPress prints 0.
template <class IdType>
constexpr bool is_unset_id(std::string_view text) {
  return text.empty() || (std::is_same_v<IdType, ReaderId> && text == "0");
}

}  // namespace freshet

template <class Tag>
struct std::hash<freshet::Id<Tag>> {
  std::size_t operator()(const freshet::Id<Tag>& id) const { return std::hash<std::string>()(id.str()); }
};
