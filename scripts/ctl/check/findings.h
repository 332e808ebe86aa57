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
  kSuspicious,    // can come about, but rarely does: more visitors than page views, when readers share a session id
  kStale,  // left behind by what expired; --sweep takes it away
};

struct FindingKind {
  std::string_view name;
  Level level;
  std::string_view meaning;
};

// Every kind of finding.
namespace kinds {
inline constexpr FindingKind kUnknownKey{"unknown_key", Level::kViolation, "a key that is none of ours"};
inline constexpr FindingKind kWrongType{"wrong_type", Level::kViolation, "a key of another type than its name says"};
inline constexpr FindingKind kNoTtl{"no_ttl", Level::kViolation, "a key that should expire and does not"};
inline constexpr FindingKind kUnexpectedTtl{"ttl", Level::kViolation, "a permanent key that will expire"};
inline constexpr FindingKind kOverLimit{"over_cap", Level::kViolation,
                               "a key with more members than its bound in the configuration"};
inline constexpr FindingKind kBadScore{"bad_score", Level::kViolation,
                                "a score that is not finite, or not positive"};
inline constexpr FindingKind kBadCounter{"bad_counter", Level::kViolation, "counters that contradict each other"};
inline constexpr FindingKind kBucketBound{"bound", Level::kViolation,
                             "hot:current:index below the best total of its hour"};
inline constexpr FindingKind kHiddenListed{"hidden_listed", Level::kViolation, "a hidden item in a rank"};
inline constexpr FindingKind kMisplaced{"misplaced", Level::kViolation,
                                 "a place in hot:rank or hot:score that is not what the counters give"};
inline constexpr FindingKind kBadTimeline{"bad_timeline", Level::kViolation,
                                   "scores and marks of a timeline that contradict each other"};
inline constexpr FindingKind kDataLost{"lost", Level::kViolation,
                            "Redis lost its data, and freshetctl rebuild-redis did not run since"};
inline constexpr FindingKind kWrongTotal{"sum", Level::kViolation, "a sum that is not what was accepted"};
inline constexpr FindingKind kUvAbovePv{"uv_above_pv", Level::kSuspicious, "more visitors than page views"};
inline constexpr FindingKind kOneSidedFollow{"half_follow", Level::kSuspicious,
                                  "a follow of which only one of reader and author knows"};
inline constexpr FindingKind kNoCounters{"no_counters", Level::kStale,
                                  "a member of a rank whose counters have expired"};
inline constexpr FindingKind kNoItem{"no_item", Level::kStale, "a member of a tag without an item"};
inline constexpr FindingKind kNoBucket{"no_bucket", Level::kStale,
                                "an hour of hot:current:index without its bucket"};
inline constexpr FindingKind kExpiredHidden{"old_hidden", Level::kStale,
                                 "a deleted item that need not be remembered any more"};
inline constexpr FindingKind kAbandonedRebuild{"old_rebuild", Level::kStale,
                                  "hot:rank:next of a rebuild that did not end"};
}  // namespace kinds

class Findings {
 public:
  void add(const FindingKind& kind, std::string_view key, std::string_view detail = {});
  // Something stale that was removed.
  void mark_swept(const FindingKind& kind) { ++swept_[kind.name]; }
  std::int64_t count(const FindingKind& kind) const;
  std::int64_t swept_count(const FindingKind& kind) const;
  // Of one level, without what was swept.
  std::int64_t remaining(Level level) const;
  // A line for each kind found, its examples below it; control characters escaped. Empty when
  // nothing was found.
  std::string text() const;
  // [{kind, level, meaning, times, swept, examples}], in the same order.
  void write_json(json::Writer& writer) const;

 private:
  struct Entry {
    FindingKind kind;
    std::int64_t count = 0;
    std::vector<std::string> examples;
  };
  std::map<std::string_view, Entry> entries_;
  std::map<std::string_view, std::int64_t> swept_;
};

}  // namespace freshet::ctl
