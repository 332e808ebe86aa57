#include "fcgi/observe/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/log.h"

namespace freshet::observe {
namespace {

constexpr std::size_t kMaxBuffered = 64UL * 1024;
constexpr mode_t kFileMode = 0640;  // the file contains addresses and paths

}  // namespace

LineFile::LineFile(std::string path, Buffering buffering) : path_(std::move(path)), buffering_(buffering) {
  if (!path_.empty()) fd_ = open_file();
}

LineFile::~LineFile() {
  flush();
  if (fd_ >= 0) close(fd_);
}

int LineFile::open_file() const {
  const int fd = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (fd < 0) log::error("request_log_open_failed", {{"file", path_}, {"error", std::strerror(errno)}});
  return fd;
}

void LineFile::append(std::string_view line) {
  if (fd_ < 0) return;
  if (buffered_.size() + line.size() + 1 > kMaxBuffered) flush();
  buffered_.append(line).push_back('\n');
  if (buffering_ == Buffering::kNone) flush();
}

// Lines are lost if the disk is full; requests are not affected.
void LineFile::flush() {
  if (buffered_.empty() || fd_ < 0) return;
  ssize_t written = 0;
  do {
    written = write(fd_, buffered_.data(), buffered_.size());
  } while (written < 0 && errno == EINTR);
  buffered_.clear();
}

void LineFile::reopen() {
  if (path_.empty()) return;
  flush();
  const int new_fd = open_file();
  if (new_fd < 0) return;
  if (fd_ >= 0) close(fd_);
  fd_ = new_fd;
}

}  // namespace freshet::observe
