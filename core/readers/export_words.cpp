#include "core/readers/export_words.h"

#include <algorithm>
#include <array>

namespace freshet::readers {
namespace {

struct Words {
  std::string_view head;  // of a pattern, up to the first part that varies
  std::string_view what;
};

constexpr std::array kWords{
    Words{"hot:session:", "a visit to an article, so that it counts once"},
    Words{"hot:event:", "a report on an article, so that it counts once"},
    Words{"hot:dedup:", "a view of an article, so that it counts once"},
    Words{"hot:uv:", "a day on which you are counted among an article's visitors"},
    Words{"hot:view:event:", "a report of a view, so that it counts once"},
    Words{"hot:added:", "what you added to the counters of articles"},
    Words{"feed:cache:", "items that wait for the next pages of your feed"},
    Words{"feed:state:", "where you are in your feed, and its last pages"},
    Words{"user:interactions:", "what you did with items, and when"},
    Words{"user:earlier:", "items that you did something with earlier, as fingerprints"},
    Words{"user:views:topic:", "topics that you viewed"},
    Words{"user:views:reply:", "replies that you viewed"},
    Words{"user:views:at:", "when you viewed them"},
    Words{"user:not_interested:", "items that you are not interested in, and since when"},
    Words{"user:not_interested:why:", "why you are not interested in them"},
    Words{"user:events:", "reports of views, so that they count once"},
    Words{"wf:", "items in your timeline of a channel, and when they came"},
    Words{"active:", "when you last opened a channel"},
    Words{"follow:authors:", "authors whom you follow, and since when"},
    Words{"follow:readers:", "that you are among an author's followers, and since when"},
};

constexpr std::string_view find(std::string_view pattern) {
  const std::string_view head = pattern.substr(0, pattern.find_first_of("{*"));
  const auto found =
      std::find_if(kWords.begin(), kWords.end(), [&](const Words& each) { return each.head == head; });
  return found == kWords.end() ? std::string_view() : found->what;
}

static_assert(std::all_of(redis::kKeyPatterns.begin(), redis::kKeyPatterns.end(),
                          [](const redis::KeyPattern& key) {
                            return (key.subject == redis::Subject::kNone) == find(key.pattern).empty();
                          }),
              "every key that is about a reader, and no other, has words");

}  // namespace

std::string_view words_for(const redis::KeyPattern& key) { return find(key.pattern); }

}  // namespace freshet::readers
