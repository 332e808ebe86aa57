#include "core/readers/key_descriptions.h"

#include <algorithm>
#include <array>

namespace freshet::readers {
namespace {

struct KeyDescription {
  std::string_view prefix;  // of a pattern, up to the first part that varies
  std::string_view description;
};

constexpr std::array kKeyDescriptions{
    KeyDescription{"hot:session:", "a visit to an article, so that it counts once"},
    KeyDescription{"hot:event:", "a report on an article, so that it counts once"},
    KeyDescription{"hot:dedup:", "a view of an article, so that it counts once"},
    KeyDescription{"hot:uv:", "a day on which you are counted among an article's visitors"},
    KeyDescription{"hot:view:event:", "a report of a view, so that it counts once"},
    KeyDescription{"hot:added:", "what you added to the counters of articles"},
    KeyDescription{"feed:cache:", "items that wait for the next pages of your feed"},
    KeyDescription{"feed:state:", "where you are in your feed, and its last pages"},
    KeyDescription{"user:interactions:", "what you did with items, and when"},
    KeyDescription{"user:earlier:", "items that you did something with earlier, as fingerprints"},
    KeyDescription{"user:views:topic:", "topics that you viewed"},
    KeyDescription{"user:views:reply:", "replies that you viewed"},
    KeyDescription{"user:views:at:", "when you viewed them"},
    KeyDescription{"user:not_interested:", "items that you are not interested in, and since when"},
    KeyDescription{"user:not_interested:why:", "why you are not interested in them"},
    KeyDescription{"user:events:", "reports of views, so that they count once"},
    KeyDescription{"wf:", "items in your timeline of a channel, and when they came"},
    KeyDescription{"active:", "when you last opened a channel"},
    KeyDescription{"follow:authors:", "authors whom you follow, and since when"},
    KeyDescription{"follow:readers:", "that you are among an author's followers, and since when"},
};

constexpr std::string_view find_description(std::string_view pattern) {
  const std::string_view head = pattern.substr(0, pattern.find_first_of("{*"));
  const auto found =
      std::find_if(kKeyDescriptions.begin(), kKeyDescriptions.end(), [&](const KeyDescription& each) { return each.prefix == head; });
  return found == kKeyDescriptions.end() ? std::string_view() : found->description;
}

static_assert(std::all_of(redis::kKeyPatterns.begin(), redis::kKeyPatterns.end(),
                          [](const redis::KeyPattern& key) {
                            return (key.subject == redis::Subject::kNone) == find_description(key.pattern).empty();
                          }),
              "every key that is about a reader, and no other, has words");

}  // namespace

std::string_view description_for(const redis::KeyPattern& key) { return find_description(key.pattern); }

}  // namespace freshet::readers
