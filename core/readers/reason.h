// Why an item is shown to a reader, in the reader's own terms: an item they liked, a tag, an
// author. Names items, tags and authors, never other readers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/utf8.h"
#include "core/readers/interaction.h"

namespace freshet::readers {

struct Reason {
  enum class Kind : std::uint8_t {
    kLike,      // similar to `item`, which the reader viewed or interacted with (`interaction`)
    kByAuthor,  // by author `name`, whose work the reader liked
    kNewInTag,  // less than a day old, with tag `name` of something the reader liked
    kRising,    // trending
    kNewHere,   // on a position for new items (recommend.explore)
    kNew,       // not opened by anyone yet, or less than a day old
    kMatch,     // matches the tags or words of the reader's interests
    kQuery,     // matches the reader's search
    kFollowed,  // by author `name` (empty if unknown), whom the reader follows
    kAlsoRead,  // read after the item that the page is about
    kSimilar,   // similar to the item that the page is about
    kMore       // no specific reason
  } kind = Kind::kRising;
  ItemId item;
  std::string title;
  Interaction interaction = Interaction::kView;
  std::string name;
};

// "like", "author", "new_in_tag", "rising", "new_here", "new", "match", "query", "followed",
// "also_read", "similar" or "more". Stable, for programs.
std::string_view reason_name(Reason::Kind kind);

// English, for pages that have no texts of their own: "like “Title”, which you favourited".
std::string reason_text(const Reason& reason);

// Items up to this age are "new" in a reason.
inline constexpr seconds kNewItemAge{86400};

// Authors and tags of the items a reader liked, by their keys.
class LikedSet {
 public:
  // The arguments of both functions are those of an item.
  template <class Tags>
  void add(std::string_view author_id, std::string_view author, const Tags& tags) {
    std::string buffer;
    const std::string_view key = author_key(author_id, author, buffer);
    if (!key.empty()) authors_.emplace(key);
    for (const std::string_view tag : tags) tags_.emplace(utf8::fold(tag, buffer));
  }
  // Tries an author they liked, then a new item in a tag they liked, then `fallback`. `Tags`: a
  // range of elements convertible to string_view.
  template <class Tags>
  Reason reason(std::string_view author_id, std::string_view author, const Tags& tags, seconds age,
                Reason::Kind fallback) const {
    std::string buffer;
    if (authors_.contains(author_key(author_id, author, buffer)))
      return make_reason(Reason::Kind::kByAuthor, author.empty() ? author_id : author);
    if (age < kNewItemAge && !tags_.empty()) {
      for (const std::string_view tag : tags) {
        if (tags_.contains(utf8::fold(tag, buffer))) return make_reason(Reason::Kind::kNewInTag, tag);
      }
    }
    return make_reason(fallback, {});
  }

 private:
  static Reason make_reason(Reason::Kind kind, std::string_view name) {
    Reason out;
    out.kind = kind;
    out.name = name;
    return out;
  }
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> tags_, authors_;
};

}  // namespace freshet::readers
