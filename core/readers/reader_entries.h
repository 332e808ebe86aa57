// How what readers do stands in the recorder's stream: fields of an entry, beside those of items
// (item_fields.h).
//   op interaction  reader, item, kind (a letter of rank::kInteractionKinds), at (unix s)
//   op dismiss      reader, item, at, reason (may be absent)
//   op undismiss    reader, item, at
//   op follow       reader, author, at
//   op unfollow     reader, author
//   op fanout       author, items (ids, between them a space), upto (score in
//   follow:readers:{author} of the last
//                   who gets them), job: push them to followers (core/recorder/fanout_worker.h)
//   op erase        reader, job: forget everything about the reader (job: id of job:{id} in Redis)
// An entry may be applied any number of times.
#pragma once

#include <string_view>

namespace freshet::readers {

inline constexpr std::string_view kOpInteraction = "interaction";
inline constexpr std::string_view kOpDismiss = "dismiss";
inline constexpr std::string_view kOpUndismiss = "undismiss";
inline constexpr std::string_view kOpFollow = "follow";
inline constexpr std::string_view kOpUnfollow = "unfollow";
inline constexpr std::string_view kOpFanout = "fanout";
inline constexpr std::string_view kOpErase = "erase";

}  // namespace freshet::readers
