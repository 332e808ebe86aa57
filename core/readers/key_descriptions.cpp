#include "core/readers/key_descriptions.h"

#include <algorithm>
#include <array>

namespace freshet::readers {
namespace {

struct KeyDescription {
  std::string_view prefix;  // of the pattern, up to its first variable part
  std::string_view description;
};

constexpr std::array kKeyDescriptions{
    KeyDescription{"hot:added:", "what you contributed to the counters of articles"},
    KeyDescription{"feed:cache:", "items queued for the next pages of your feed"},
    KeyDescription{"feed:state:", "your position in your feed, and its last pages"},
    KeyDescription{"user:visitors:", "names under which your feed knows what you saw before you signed in"},
    KeyDescription{"user:interactions:", "your interactions with items, and when they happened"},
    KeyDescription{"user:earlier:", "items you interacted with earlier, as fingerprints"},
    KeyDescription{"user:views:topic:", "topics you viewed"},
    KeyDescription{"user:views:reply:", "replies you viewed"},
    KeyDescription{"user:views:at:", "when you viewed them"},
    KeyDescription{"user:not_interested:", "items you are not interested in, and since when"},
    KeyDescription{"user:not_interested:why:", "why you are not interested in them"},
    KeyDescription{"user:events:", "reports of views, kept so that they count only once"},
    KeyDescription{"wf:", "items in your timeline of a channel, and when they were added"},
    KeyDescription{"active:", "when you last opened a channel"},
    KeyDescription{"follow:authors:", "authors you follow, and since when"},
    KeyDescription{"follow:readers:", "that you follow an author, and since when"},
};

constexpr std::string_view find_description(std::string_view pattern) {
  const std::string_view head = pattern.substr(0, pattern.find_first_of("{*"));
  const auto found = std::find_if(kKeyDescriptions.begin(), kKeyDescriptions.end(),
                                  [&](const KeyDescription& each) { return each.prefix == head; });
  return found == kKeyDescriptions.end() ? std::string_view() : found->description;
}

static_assert(std::all_of(redis::kKeyPatterns.begin(), redis::kKeyPatterns.end(),
                          [](const redis::KeyPattern& key) {
                            const bool exported = key.subject != redis::Subject::kNone &&
                                                  key.subject != redis::Subject::kValue &&
                                                  !redis::names_article_first(key);
                            return exported != find_description(key.pattern).empty();
                          }),
              "exactly the exported keys have a description");

}  // namespace

std::string_view description_for(const redis::KeyPattern& key) { return find_description(key.pattern); }

}  // namespace freshet::readers
