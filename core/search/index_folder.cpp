#include "core/search/index_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>

namespace freshet::search {
namespace {

constexpr std::string_view kStubPrefix = "auto ";

[[noreturn]] void fail_with_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string number(UnixSeconds at) { return std::to_string(at.time_since_epoch().count()); }

template <class Number>
bool consume_number(std::string_view& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

bool consume(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<TimeSlice> parse_folder_name(std::string_view name) {
  std::int64_t begin = 0, end = 0;
  std::uint64_t serial = 0;
  const bool is_valid = consume_number(name, begin) && consume(name, '-') && consume_number(name, end) &&
                        consume(name, '.') && consume_number(name, serial) && name.empty();
  if (!is_valid) return std::nullopt;
  return TimeSlice{UnixSeconds{seconds{begin}}, UnixSeconds{seconds{end}}, serial};
}

void write_durably(const std::filesystem::path& file, std::string_view text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail_with_errno(file);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool synced = written && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (!synced) throw std::system_error(error, std::generic_category(), file);
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_with_errno(folder);
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

UnixSeconds slice_start(UnixSeconds at) {
  const std::int64_t span = kSliceSpan.count(), second = at.time_since_epoch().count();
  const std::int64_t index = (second >= 0 ? second : second - (span - 1)) / span;
  return UnixSeconds{seconds{index * span}};
}

std::string TimeSlice::folder_name() const {
  return number(begin) + "-" + number(end) + "." + std::to_string(serial);
}

std::optional<std::vector<TimeSlice>> IndexFolder::slices() const {
  std::ifstream in(stub_file());
  if (!in) {
    if (errno == ENOENT) return std::nullopt;
    fail_with_errno(stub_file());  // an unreadable index is not a missing one
  }
  std::vector<TimeSlice> found;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kStubPrefix)) continue;
    if (const auto slice = parse_folder_name(std::string_view(line).substr(kStubPrefix.size()))) {
      found.push_back(*slice);
    }
  }
  if (in.bad()) throw std::system_error(EIO, std::generic_category(), stub_file());
  std::sort(found.begin(), found.end(),
            [](const TimeSlice& a, const TimeSlice& b) { return a.begin < b.begin; });
  return found;
}

void IndexFolder::publish(const std::vector<TimeSlice>& slices) const {
  std::string text = "# Freshet search index: time slices by publish time\n";
  for (const TimeSlice& each : slices) text += std::string(kStubPrefix) + each.folder_name() + "\n";
  const std::filesystem::path temporary = stub_file().concat(".new");
  write_durably(temporary, text);
  std::filesystem::rename(temporary, stub_file());
  sync_folder(path_);
}

void IndexFolder::remove_except(const std::vector<TimeSlice>& keep) const {
  std::vector<std::filesystem::path> obsolete;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    const auto slice = parse_folder_name(entry.path().filename().string());
    if (slice && std::find(keep.begin(), keep.end(), *slice) == keep.end()) {
      obsolete.push_back(entry.path());
    }
  }
  for (const auto& folder : obsolete) std::filesystem::remove_all(folder);
}

std::uint64_t IndexFolder::next_serial() const {
  std::uint64_t highest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    const auto slice = parse_folder_name(entry.path().filename().string());
    if (slice) highest = std::max(highest, slice->serial);
  }
  return highest + 1;
}

namespace {

// Locks belong to the open file description, not to the process: two objects of one process also
// exclude each other.
struct flock lock_request(IndexLock::Scope scope, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(scope);
  range.l_len = 1;
  return range;
}

}  // namespace

IndexLock::IndexLock(const std::filesystem::path& file)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail_with_errno(file);
}

IndexLock::~IndexLock() { ::close(fd_); }

bool IndexLock::try_lock(Scope scope) {
  struct flock range = lock_request(scope, F_WRLCK);
  return ::fcntl(fd_, F_OFD_SETLK, &range) == 0;
}

void IndexLock::lock(Scope scope) {
  struct flock range = lock_request(scope, F_WRLCK);
  while (::fcntl(fd_, F_OFD_SETLKW, &range) != 0) {
    if (errno != EINTR) fail_with_errno("search index lock");
  }
}

void IndexLock::unlock(Scope scope) {
  struct flock range = lock_request(scope, F_UNLCK);
  ::fcntl(fd_, F_OFD_SETLK, &range);
}

bool IndexLock::is_held_elsewhere(Scope scope) const {
  struct flock range = lock_request(scope, F_WRLCK);
  return ::fcntl(fd_, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

}  // namespace freshet::search
