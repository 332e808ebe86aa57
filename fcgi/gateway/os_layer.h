// The memory that libfcgi reads from and writes to while a Codec is at work (see codec.h).
#pragma once

#include <string>
#include <string_view>

namespace freshet::gateway {

// While one lives, libfcgi on this thread reads `input` and appends to `output`. One at a time on a
// thread.
class OsScope {
 public:
  OsScope(std::string_view input, std::string& output);
  OsScope(const OsScope&) = delete;
  OsScope& operator=(const OsScope&) = delete;
  ~OsScope();
};

}  // namespace freshet::gateway
