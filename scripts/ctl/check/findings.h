// Findings of `freshetctl check`, counted by kind, with the first few examples of each.
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
  kViolation,   // must never happen
  kSuspicious,  // possible but rare: more visitors than page views, when readers share a session id
  kStale,       // left over from expired data; --sweep removes it
};

struct FindingKind {
  std::string_view name;
  Level level;
  std::string_view meaning;
};

// All kinds of findings.
namespace kinds {
inline constexpr FindingKind kUnknownKey{"unknown_key", Level::kViolation,
                                         "a key that is not one of Freshet's"};
inline constexpr FindingKind kWrongType{"wrong_type", Level::kViolation,
                                        "a key whose type does not match its name"};
inline constexpr FindingKind kNoTtl{"no_ttl", Level::kViolation, "a key that should expire but has no TTL"};
inline constexpr FindingKind kUnexpectedTtl{"ttl", Level::kViolation, "a permanent key with a TTL"};
inline constexpr FindingKind kOverLimit{"over_cap", Level::kViolation,
                                        "a key with more members than its configured limit"};
inline constexpr FindingKind kBadScore{"bad_score", Level::kViolation,
                                       "a score that is not finite or not positive"};
inline constexpr FindingKind kBadCounter{"bad_counter", Level::kViolation, "contradictory counters"};
inline constexpr FindingKind kBucketBound{"bound", Level::kViolation,
                                          "hot:current:index below the best total of its hour"};
inline constexpr FindingKind kHiddenListed{"hidden_listed", Level::kViolation, "a hidden item in a rank"};
inline constexpr FindingKind kMisplaced{"misplaced", Level::kViolation,
                                        "a score in hot:rank or hot:score that does not match the counters"};
inline constexpr FindingKind kBadTimeline{"bad_timeline", Level::kViolation,
                                          "contradictory scores and marks of a timeline"};
inline constexpr FindingKind kDataLost{"lost", Level::kViolation,
                                       "Redis lost its data and freshetctl rebuild-redis has not run since"};
inline constexpr FindingKind kWrongTotal{"sum", Level::kViolation,
                                         "a total that differs from the expected one"};
inline constexpr FindingKind kUvAbovePv{"uv_above_pv", Level::kSuspicious, "more visitors than page views"};
inline constexpr FindingKind kOtherPartitions{
    "other_partitions", Level::kSuspicious,
    "a key that articles share, but of no partition of this Redis: nothing reads it"};
inline constexpr FindingKind kOneSidedFollow{"half_follow", Level::kSuspicious,
                                             "a follow that only the reader or only the author has"};
inline constexpr FindingKind kNoCounters{"no_counters", Level::kStale,
                                         "a member of a rank whose counters have expired"};
inline constexpr FindingKind kNoItem{"no_item", Level::kStale, "a member of a tag without an item"};
inline constexpr FindingKind kNoBucket{"no_bucket", Level::kStale,
                                       "an hour of hot:current:index without its bucket"};
inline constexpr FindingKind kExpiredHidden{"old_hidden", Level::kStale,
                                            "a deleted item that no longer has to be remembered"};
inline constexpr FindingKind kAbandonedRebuild{"old_rebuild", Level::kStale,
                                               "hot:rank:next of a rebuild that did not finish"};
}  // namespace kinds

class Findings {
 public:
  void add(const FindingKind& kind, std::string_view key, std::string_view detail = {});
  // Records that a stale member was removed.
  void mark_swept(const FindingKind& kind) { ++swept_[kind.name]; }
  std::int64_t count(const FindingKind& kind) const;
  std::int64_t swept_count(const FindingKind& kind) const;
  // Findings of one level, without swept ones.
  std::int64_t remaining(Level level) const;
  // One line per kind, its examples below it; control characters are escaped. Empty when there are
  // no findings.
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
