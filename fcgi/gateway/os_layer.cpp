#include "fcgi/gateway/os_layer.h"

#include <fcgios.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace freshet::gateway {

namespace {

thread_local std::string_view input;
thread_local std::string* output = nullptr;

}  // namespace

MemoryIoScope::MemoryIoScope(std::string_view bytes, std::string& wire) {
  input = bytes;
  output = &wire;
}

MemoryIoScope::~MemoryIoScope() {
  input = {};
  output = nullptr;
}

}  // namespace freshet::gateway

// The eight functions that libfcgi's fcgiapp.o refers to. Their signatures are libfcgi's.
extern "C" {

int OS_LibInit(int* /*stdio_fds*/) { return 0; }

int OS_Read(int /*fd*/, char* buffer, size_t size) {
  using freshet::gateway::input;
  const size_t count = std::min(size, input.size());
  if (count > 0) std::memcpy(buffer, input.data(), count);
  input.remove_prefix(count);
  return static_cast<int>(count);  // 0: the end, which framing rules out inside a request
}

int OS_Write(int /*fd*/, char* buffer, size_t size) {
  if (freshet::gateway::output != nullptr) freshet::gateway::output->append(buffer, size);
  return static_cast<int>(size);
}

int OS_IpcClose(int /*fd*/, int /*shutdown*/) { return 0; }  // the gateway owns the connection

// After it rejects a request, libfcgi asks for the next connection: there is none.
int OS_Accept(int /*listen_socket*/, int /*fail_on_interrupt*/, const char* /*allowed*/) {
  errno = EPROTO;
  return -1;
}

int OS_CreateLocalIpcFd(const char* /*path*/, int /*backlog*/) { return -1; }
int OS_IsFcgi(int /*fd*/) { return 1; }
void OS_ShutdownPending() {}

}  // extern "C"
