// Identifiers of items (articles, topics) and readers (users, agents, customers, visitors), as
// API.md defines them: 1–128 bytes of valid UTF-8 without control characters, Unicode white space,
// zero-width characters, bidirectional controls, ':', '{' or '}'. Compared bytewise.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/result.h"

namespace freshet {

inline constexpr std::size_t kMaxIdBytes = 128;

// Error: kInvalid "bad_id", with `member` as given.
Result<void> check_id(std::string_view text, std::string_view member);

template <class Tag>
class Id {
 public:
  Id() = default;
  // O(bytes). `member` names the request member in the error.
  static Result<Id> parse(std::string_view text, std::string_view member) {
    if (auto ok = check_id(text, member); !ok) return tl::unexpected(ok.error());
    return Id(std::string(text));
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
using AuthorId = Id<struct AuthorTag>;  // an author that readers can follow
using TagName = Id<struct TagTag>;      // a column (section) of the site

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
