#include "core/redis/spool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/agreed_clock.h"

namespace freshet::redis {

namespace {

constexpr std::uint64_t kMagic = 0x334c4f4f50535246;  // "FRSPOOL3", little-endian
constexpr std::uint64_t kHeaderBytes = 4096;
constexpr std::uint64_t kGrowth = 1 << 20;

struct RecordHeader {
  std::uint64_t size;
  std::uint64_t checksum;  // XXH3 of the payload and at_ms
  std::int64_t at_ms;      // unix time of the append
};

std::int64_t unix_ms() { return wall_ms().count(); }

milliseconds since(std::int64_t ms) { return milliseconds(std::max<std::int64_t>(0, unix_ms() - ms)); }

std::uint64_t padded(std::uint64_t size) { return (size + 7) & ~std::uint64_t{7}; }

std::uint64_t checksum(std::string_view payload, std::int64_t at_ms) {
  return XXH3_64bits_withSeed(payload.data(), payload.size(), static_cast<XXH64_hash_t>(at_ms));
}

// Whether `name` stands in `text` between line ends, as a field does.
bool names(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name, 1); at < text.size() - name.size(); at = text.find(name, at + 1)) {
    if (text[at - 1] == '\n' && text[at + name.size()] == '\r') return true;
  }
  return false;
}

tl::unexpected<Error> io_error(const std::filesystem::path& path, const char* what) {
  return fail(ErrorCode::kUnavailable, "spool_io", {},
              path.string() + ": " + what + ": " + std::strerror(errno));
}

}  // namespace

struct Spool::Header {
  std::uint64_t magic;
  std::uint64_t begin;  // offsets in the file
  std::uint64_t end;
  std::int64_t since_ms;  // unix time of the first append after it was empty; 0: not known
};

Result<std::unique_ptr<Spool>> Spool::open(const std::filesystem::path& path, std::size_t max_bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_error(path, "open");
  const auto give_up = [fd](auto error) {
    ::close(fd);
    return error;
  };
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return give_up(fail(ErrorCode::kConflict, "spool_locked", {}, path.string()));
  }
  struct stat status {};
  if (fstat(fd, &status) != 0) return give_up(io_error(path, "fstat"));
  // Whoever had the lock before us deleted it: what we wrote would be seen by nobody.
  if (status.st_nlink == 0) return give_up(fail(ErrorCode::kConflict, "spool_locked", {}, path.string()));
  const bool fresh = status.st_size == 0;
  if (fresh) {
    if (const int error = posix_fallocate(fd, 0, kHeaderBytes); error != 0) {
      errno = error;
      return give_up(io_error(path, "allocate"));
    }
  } else if (static_cast<std::uint64_t>(status.st_size) < kHeaderBytes) {
    return give_up(fail(ErrorCode::kInvalid, "spool_format", {}, path.string()));
  }
  // An adopted file may have been made under a larger limit.
  const std::size_t mapped = std::max<std::size_t>(
      kHeaderBytes + max_bytes, fresh ? kHeaderBytes : static_cast<std::size_t>(status.st_size));
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return give_up(io_error(path, "mmap"));
  std::unique_ptr<Spool> spool(new Spool(path, fd, mapped, memory));
  Header& header = spool->header();
  if (fresh) header = Header{kMagic, kHeaderBytes, kHeaderBytes, 0};
  if (header.magic != kMagic || header.begin < kHeaderBytes || header.end < kHeaderBytes ||
      std::max(header.begin, header.end) > spool->allocated_) {
    return fail(ErrorCode::kInvalid, "spool_format", {}, path.string());
  }
  // What a process left that was killed while it popped or appended.
  if (header.begin >= header.end)
    spool->start_over();
  else
    spool->forget_around();
  return spool;
}

// The whole file is looked at, whatever the header says: its owner may be about to change it.
Result<bool> Spool::mentions(const std::filesystem::path& path, std::string_view name) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ENOENT) return false;
    return io_error(path, "open");
  }
  // Pieces overlap by the name and what stands on either side of it.
  const std::uint64_t overlap = name.size() + 2;
  std::string piece(kGrowth, '\0');
  bool found = false;
  ssize_t got = 1;
  for (std::uint64_t from = kHeaderBytes; !found && got > 0; from += kGrowth - overlap) {
    got = pread(fd, piece.data(), piece.size(), static_cast<off_t>(from));
    if (got > static_cast<ssize_t>(overlap))
      found = names(std::string_view(piece).substr(0, static_cast<std::size_t>(got)), name);
  }
  ::close(fd);
  if (got < 0) return io_error(path, "read");
  return found;
}

bool Spool::any_waits(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != kSpoolSuffix) continue;
    const auto bytes = entry.file_size(error);
    if (!error && bytes > kHeaderBytes) return true;
    if (error == std::errc::no_such_file_or_directory) error.clear();  // just now deleted: empty
    if (error) return true;
  }
  return error && error != std::errc::no_such_file_or_directory;
}

Spool::Spool(std::filesystem::path path, int fd, std::size_t max_bytes, void* memory)
    : path_(std::move(path)), fd_(fd), max_bytes_(max_bytes), memory_(memory), allocated_(kHeaderBytes) {
  struct stat status {};
  if (fstat(fd_, &status) == 0) allocated_ = static_cast<std::uint64_t>(status.st_size);
}

Spool::~Spool() {
  munmap(memory_, max_bytes_);
  ::close(fd_);
}

Spool::Header& Spool::header() const { return *static_cast<Header*>(memory_); }

bool Spool::reserve(std::uint64_t end) {
  if (end > max_bytes_) return false;
  if (end <= allocated_) return true;
  const std::uint64_t wanted = std::min<std::uint64_t>(max_bytes_, (end + kGrowth - 1) / kGrowth * kGrowth);
  if (posix_fallocate(fd_, 0, static_cast<off_t>(wanted)) != 0) return false;
  allocated_ = wanted;
  return true;
}

bool Spool::append(std::string_view payload) {
  const std::uint64_t start = header().end;
  const std::uint64_t end = start + sizeof(RecordHeader) + padded(payload.size());
  if (end > max_bytes_ || !reserve(end)) return false;
  const std::int64_t now = unix_ms();
  const RecordHeader record{payload.size(), checksum(payload, now), now};
  auto* to = static_cast<char*>(memory_) + start;
  std::memcpy(to, &record, sizeof record);
  std::memcpy(to + sizeof record, payload.data(), payload.size());
  if (empty()) header().since_ms = unix_ms();
  // The end moves last: a process killed before this has written nothing that counts.
  __atomic_store_n(&header().end, end, __ATOMIC_RELEASE);
  return true;
}

bool Spool::empty() const { return header().begin == header().end; }
std::uint64_t Spool::bytes() const { return header().end - header().begin; }
milliseconds Spool::age() const {
  if (empty() || header().since_ms == 0) return milliseconds(0);
  return since(header().since_ms);
}
std::uint64_t Spool::begin() const { return header().begin; }

std::uint64_t Spool::whole(std::uint64_t position) const {
  const std::uint64_t end = header().end;
  RecordHeader record{};
  if (position > end || end - position < sizeof record) return 0;
  const auto* from = static_cast<const char*>(memory_) + position;
  std::memcpy(&record, from, sizeof record);
  if (record.size > end - position - sizeof record) return 0;
  const std::uint64_t next = position + sizeof record + padded(record.size);
  if (next > end) return 0;
  return checksum({from + sizeof record, record.size}, record.at_ms) == record.checksum ? next : 0;
}

std::optional<Spool::Record> Spool::at(std::uint64_t position) {
  const std::uint64_t end = header().end;
  if (position >= end) return std::nullopt;
  RecordHeader record{};
  const auto* from = static_cast<const char*>(memory_) + position;
  if (end - position >= sizeof record) std::memcpy(&record, from, sizeof record);
  if (const std::uint64_t next = whole(position); next != 0)
    return Record{false, {from + sizeof record, record.size}, next, since(record.at_ms)};
  damaged_ = true;
  // Its size may be as wrong as the rest: it is believed when it leads to a record that is whole.
  if (record.size < end - position) {
    const std::uint64_t next = position + sizeof record + padded(record.size);
    if (whole(next) != 0) return Record{true, {}, next, {}};
  }
  header().end = position;
  forget(position, end);  // else when it is opened next
  return std::nullopt;
}

// What is popped leaves the file: it may name readers. A process killed after `begin` moved leaves
// that to whoever opens the file next.
void Spool::pop_to(std::uint64_t position) {
  Header& h = header();
  const std::uint64_t from = h.begin;
  h.begin = std::min(position, h.end);
  if (h.begin == h.end)
    start_over();
  else
    forget(from, h.begin);
}

// At every moment `begin` is `end` or lies behind it, which both mean empty.
void Spool::start_over() {
  Header& h = header();
  __atomic_store_n(&h.end, kHeaderBytes, __ATOMIC_RELEASE);
  __atomic_store_n(&h.begin, kHeaderBytes, __ATOMIC_RELEASE);
  if (!cut(kHeaderBytes)) forget(kHeaderBytes, allocated_);
}

// REQUIRES: the bytes are allocated, so writing them needs no space.
void Spool::forget(std::uint64_t from, std::uint64_t to) {
  if (to > from) std::memset(static_cast<char*>(memory_) + from, 0, to - from);
}

void Spool::forget_around() {
  forget(kHeaderBytes, header().begin);
  if (!cut(header().end)) forget(header().end, allocated_);
}

bool Spool::cut(std::uint64_t end) {
  if (allocated_ <= end) return true;
  if (ftruncate(fd_, static_cast<off_t>(end)) != 0) return false;
  allocated_ = end;
  return true;
}

void Spool::unlink() { std::filesystem::remove(path_); }

}  // namespace freshet::redis
