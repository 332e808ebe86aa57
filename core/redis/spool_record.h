// An event as it waits in a spool: its kind, then its fields, as text. It says what happened, not
// what to do about it, so whoever replays it, a later version too, does all that follows from it.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::redis {

class SpoolRecord {
 public:
  SpoolRecord() = default;  // none
  explicit SpoolRecord(std::string_view kind) { add(kind); }

  SpoolRecord& add(std::string_view field);
  SpoolRecord& add(std::integral auto field) { return add(std::string_view(std::to_string(field))); }
  SpoolRecord& add(UnixSeconds time) { return add(unix_s(time)); }
  SpoolRecord& add(const std::optional<UnixSeconds>& time) {  // "": none
    return time ? add(*time) : add(std::string_view());
  }

  bool empty() const { return bytes_.empty(); }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;  // each field as "<bytes>\r\n<field>\r\n"
};

// The error of fields that are no event of the room that was asked: kInvalid "spool_format".
inline tl::unexpected<Error> malformed_event() { return fail(ErrorCode::kInvalid, "spool_format"); }

// The kind and fields of what bytes() gave, in order. Empty when it is none, as after damage.
std::vector<std::string_view> decode_fields(std::string_view encoded);

}  // namespace freshet::redis
