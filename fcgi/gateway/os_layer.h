// The memory that libfcgi reads from and writes to while a Codec is at work (see codec.h).
#pragma once

#include <string>
#include <string_view>

namespace freshet::gateway {

// While one lives, libfcgi on this thread reads `input` and appends to `output`. One at a time on a
// thread.
class MemoryIoScope {
 public:
  MemoryIoScope(std::string_view input, std::string& output);
  MemoryIoScope(const MemoryIoScope&) = delete;
  MemoryIoScope& operator=(const MemoryIoScope&) = delete;
  ~MemoryIoScope();
};

}  // namespace freshet::gateway
