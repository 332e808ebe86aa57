// The memory that libfcgi reads from and writes to while a Codec is working (see codec.h).
#pragma once

#include <string>
#include <string_view>

namespace freshet::gateway {

// While one exists, libfcgi on this thread reads from `input` and appends to `output`. At most one
// per thread.
class MemoryIoScope {
 public:
  MemoryIoScope(std::string_view input, std::string& output);
  MemoryIoScope(const MemoryIoScope&) = delete;
  MemoryIoScope& operator=(const MemoryIoScope&) = delete;
  ~MemoryIoScope();
};

}  // namespace freshet::gateway
