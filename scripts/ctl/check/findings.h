// What `freshetctl check` found, counted by kind, with the first few examples of each.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace freshet::ctl {

enum class Level {
  kViolation,  // must never be
  kOdd,    // can come about, but rarely does: more visitors than page views, when readers share a session id
  kStale,  // left behind by what expired; --sweep takes it away
};

struct Kind {
  std::string_view name;
  Level level;
  std::string_view meaning;
};

// Every kind of finding.
namespace kinds {
inline constexpr Kind kUnknownKey{"unknown_key", Level::kViolation, "a key that is none of ours"};
inline constexpr Kind kWrongType{"wrong_type", Level::kViolation, "a key of another type than its name says"};
inline constexpr Kind kNoTtl{"no_ttl", Level::kViolation, "a key that should expire and does not"};
inline constexpr Kind kTtl{"ttl", Level::kViolation, "a permanent key that will expire"};
inline constexpr Kind kOverCap{"over_cap", Level::kViolation,
                               "a key with more members than its bound in the configuration"};
inline constexpr Kind kBadScore{"bad_score", Level::kViolation,
                                "a score that is not finite, or not positive"};
inline constexpr Kind kBadCounter{"bad_counter", Level::kViolation, "counters that contradict each other"};
inline constexpr Kind kBound{"bound", Level::kViolation,
                             "hot:current:index below the best total of its hour"};
inline constexpr Kind kHiddenListed{"hidden_listed", Level::kViolation, "a hidden item in a rank"};
inline constexpr Kind kMisplaced{"misplaced", Level::kViolation,
                                 "a place in hot:rank or hot:score that is not what the counters give"};
inline constexpr Kind kBadTimeline{"bad_timeline", Level::kViolation,
                                   "scores and marks of a timeline that contradict each other"};
inline constexpr Kind kLost{"lost", Level::kViolation,
                            "Redis lost its data, and freshetctl rebuild-redis did not run since"};
inline constexpr Kind kSum{"sum", Level::kViolation, "a sum that is not what was accepted"};
inline constexpr Kind kUvAbovePv{"uv_above_pv", Level::kOdd, "more visitors than page views"};
inline constexpr Kind kHalfFollow{"half_follow", Level::kOdd,
                                  "a follow of which only one of reader and author knows"};
inline constexpr Kind kNoCounters{"no_counters", Level::kStale,
                                  "a member of a rank whose counters have expired"};
inline constexpr Kind kNoItem{"no_item", Level::kStale, "a member of a tag without an item"};
inline constexpr Kind kNoBucket{"no_bucket", Level::kStale,
                                "an hour of hot:current:index without its bucket"};
inline constexpr Kind kOldHidden{"old_hidden", Level::kStale,
                                 "a deleted item that need not be remembered any more"};
inline constexpr Kind kOldRebuild{"old_rebuild", Level::kStale,
                                  "hot:rank:next of a rebuild that did not end"};
}  // namespace kinds

class Findings {
 public:
  void add(const Kind& kind, std::string_view key, std::string_view why = {});
  // Something stale that was removed.
  void swept(const Kind& kind) { ++swept_[kind.name]; }
  std::int64_t count(const Kind& kind) const;
  std::int64_t swept_count(const Kind& kind) const;
  // Of one level, without what was swept.
  std::int64_t remaining(Level level) const;
  // A line for each kind found, its examples below it; control characters escaped. Empty when
  // nothing was found.
  std::string text() const;
  // [{kind, level, meaning, times, swept, examples}], in the same order.
  void write(json::Writer& writer) const;

 private:
  struct Found {
    Kind kind;
    std::int64_t times = 0;
    std::vector<std::string> examples;
  };
  std::map<std::string_view, Found> found_;
  std::map<std::string_view, std::int64_t> swept_;
};

}  // namespace freshet::ctl
