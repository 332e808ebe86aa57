// Entries about readers in the recorder's stream. Their fields, next to those of items
// (item_fields.h):
//   op interaction  reader, item, kind (a letter of readers::kInteractions), at (unix s)
//   op dismiss      reader, item, at, reason (optional)
//   op undismiss    reader, item, at
//   op follow       reader, author, at
//   op unfollow     reader, author
//   op fanout       author, items (ids separated by kIdSeparator), upto (score of the last
//                   recipient in follow:readers:{author}), job: push them to followers
//                   (core/recorder/fanout_worker.h)
//   op merge        reader, to, job: move what is stored about the reader to another one
//                   (core/recorder/merge_worker.h)
//   op erase        reader, job: forget everything about the reader (job: id of job:{id} in Redis)
// Applying an entry is idempotent.
#pragma once

#include <array>
#include <string_view>

namespace freshet::readers {

inline constexpr std::string_view kOpInteraction = "interaction";
inline constexpr std::string_view kOpDismiss = "dismiss";
inline constexpr std::string_view kOpUndismiss = "undismiss";
inline constexpr std::string_view kOpFollow = "follow";
inline constexpr std::string_view kOpUnfollow = "unfollow";
inline constexpr std::string_view kOpFanout = "fanout";
inline constexpr std::string_view kOpMerge = "merge";
inline constexpr std::string_view kOpErase = "erase";

// The kinds of data that a merge moves, in the job's hash and in requests.
inline constexpr std::array<std::string_view, 6> kMovedKinds{"views",    "interactions", "dismissals",
                                                             "timeline", "follows",      "rows"};

}  // namespace freshet::readers
