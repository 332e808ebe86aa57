// Encoding of an event in a spool: its kind, then its fields, as text. It describes what happened,
// not the commands that follow from it, so a later version can replay it as well.
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
  SpoolRecord() = default;  // empty
  explicit SpoolRecord(std::string_view kind) { add(kind); }

  SpoolRecord& add(std::string_view field);
  SpoolRecord& add(std::integral auto field) { return add(std::string_view(std::to_string(field))); }
  SpoolRecord& add(UnixSeconds time) { return add(unix_s(time)); }
  SpoolRecord& add(const std::optional<UnixSeconds>& time) {  // "" for nullopt
    return time ? add(*time) : add(std::string_view());
  }

  bool empty() const { return bytes_.empty(); }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;  // each field as "<bytes>\r\n<field>\r\n"
};

// Error for fields that are not an event of the module: kInvalid "spool_format".
inline tl::unexpected<Error> malformed_event() { return fail(ErrorCode::kInvalid, "spool_format"); }

// The kind and fields encoded in bytes(), in order. Empty if `encoded` is malformed.
std::vector<std::string_view> decode_fields(std::string_view encoded);

}  // namespace freshet::redis
