// Why an item is shown to a reader, in the reader's own terms: an item they liked, a tag, an
// author. Names items, tags and authors, never a reader.
#pragma once

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
    kLike,      // like `item`, with which the reader did `interaction`
    kByAuthor,  // by `name`, whose work the reader liked
    kNewInTag,  // less than a day old, in the tag `name`, which the reader liked something of
    kRising,    // trending
    kNew,       // nobody has opened it yet, or it is less than a day old
    kMatch,     // in the tags or the words of what the reader did or saw
    kQuery,     // has the words that the reader searches for
    kFollowed,  // by `name` (empty: not known), whom the reader follows
    kMore       // nothing else is left
  } kind = Kind::kRising;
  ItemId item;
  std::string title;  // of `item`
  Interaction interaction = Interaction::kView;
  std::string name;
};

// "like", "author", "new_in_tag", "rising", "new", "match", "query", "followed" or "more": stable,
// for programs.
std::string_view reason_name(Reason::Kind kind);

// English, for a page that has no words of its own: "like “Title”, which you favourited".
std::string reason_text(const Reason& reason);

// An item is "new" in a reason up to this age.
inline constexpr seconds kNewItemAge{86400};

// The authors and tags of what a reader liked. Keeps views of the texts.
class LikedSet {
 public:
  void add(std::string_view author, const std::vector<std::string_view>& tags);
  // By an author they liked, else new in a tag they liked, else `otherwise`.
  // `Tags`: a range of what a string_view is made from.
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
