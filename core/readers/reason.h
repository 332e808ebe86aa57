// Why an item is shown to a reader, in the reader's own terms: an item they liked, a tag, an
// author. Names items, tags and authors, never other readers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/readers/interaction.h"

namespace freshet::readers {

struct Reason {
  enum class Kind : std::uint8_t {
    kLike,      // similar to `item`, which the reader viewed or interacted with (`interaction`)
    kByAuthor,  // by author `name`, whose work the reader liked
    kNewInTag,  // less than a day old, with tag `name` of something the reader liked
    kRising,    // trending
    kNew,       // not opened by anyone yet, or less than a day old
    kMatch,     // matches the tags or words of the reader's interests
    kQuery,     // matches the reader's search
    kFollowed,  // by author `name` (empty if unknown), whom the reader follows
    kMore       // no specific reason
  } kind = Kind::kRising;
  ItemId item;
  std::string title;
  Interaction interaction = Interaction::kView;
  std::string name;
};

// "like", "author", "new_in_tag", "rising", "new", "match", "query", "followed" or "more". Stable,
// for programs.
std::string_view reason_name(Reason::Kind kind);

// English, for pages that have no texts of their own: "like “Title”, which you favourited".
std::string reason_text(const Reason& reason);

// Items up to this age are "new" in a reason.
inline constexpr seconds kNewItemAge{86400};

// Authors and tags of the items a reader liked. Stores views into the caller's strings.
class LikedSet {
 public:
  void add(std::string_view author, const std::vector<std::string_view>& tags);
  // Tries an author they liked, then a new item in a tag they liked, then `fallback`. `Tags`: a
  // range of elements convertible to string_view.
  template <class Tags>
  Reason reason(std::string_view author, const Tags& tags, seconds age, Reason::Kind fallback) const {
    if (authors_.contains(author)) return make_reason(Reason::Kind::kByAuthor, author);
    if (age < kNewItemAge && !tags_.empty()) {
      for (const std::string_view tag : tags) {
        if (tags_.contains(tag)) return make_reason(Reason::Kind::kNewInTag, tag);
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
  std::unordered_set<std::string_view> tags_, authors_;
};

}  // namespace freshet::readers
