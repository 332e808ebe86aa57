#include "fcgi/observe/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/log.h"

namespace freshet::observe {
namespace {

constexpr std::size_t kMostWaiting = 64UL * 1024;
constexpr mode_t kMode = 0640;  // addresses and paths are not everybody's

}  // namespace

LineFile::LineFile(std::string path, Buffer buffer) : path_(std::move(path)), buffer_(buffer) {
  if (!path_.empty()) fd_ = open_file();
}

LineFile::~LineFile() {
  flush();
  if (fd_ >= 0) close(fd_);
}

int LineFile::open_file() const {
  const int fd = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
  if (fd < 0) log::error("request_log_unusable", {{"file", path_}, {"why", std::strerror(errno)}});
  return fd;
}

void LineFile::append(std::string_view line) {
  if (fd_ < 0) return;
  if (waiting_.size() + line.size() + 1 > kMostWaiting) flush();
  waiting_.append(line).push_back('\n');
  if (buffer_ == Buffer::kNone) flush();
}

// A full disk costs lines, not requests.
void LineFile::flush() {
  if (waiting_.empty() || fd_ < 0) return;
  ssize_t got = 0;
  do {
    got = write(fd_, waiting_.data(), waiting_.size());
  } while (got < 0 && errno == EINTR);
  waiting_.clear();
}

void LineFile::reopen() {
  if (path_.empty()) return;
  flush();
  const int fresh = open_file();
  if (fresh < 0) return;
  if (fd_ >= 0) close(fd_);
  fd_ = fresh;
}

}  // namespace freshet::observe
