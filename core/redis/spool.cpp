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

#include "core/base/redis_clock.h"

namespace freshet::redis {

namespace {

constexpr std::uint64_t kMagic = 0x334c4f4f50535246;  // "FRSPOOL3", little-endian
constexpr std::uint64_t kHeaderBytes = 4096;
constexpr std::uint64_t kGrowthStep = 1 << 20;

struct EntryHeader {
  std::uint64_t size;
  std::uint64_t checksum;       // XXH3 of the payload, seeded with appended_at_ms
  std::int64_t appended_at_ms;  // unix time
};

std::int64_t unix_ms() { return wall_ms().count(); }

milliseconds elapsed_since(std::int64_t ms) {
  return milliseconds(std::max<std::int64_t>(0, unix_ms() - ms));
}

std::uint64_t padded(std::uint64_t size) { return (size + 7) & ~std::uint64_t{7}; }

std::uint64_t checksum(std::string_view payload, std::int64_t appended_at_ms) {
  return XXH3_64bits_withSeed(payload.data(), payload.size(), static_cast<XXH64_hash_t>(appended_at_ms));
}

// Returns true if `text` contains `name` as a whole field, between line ends.
bool contains_field(std::string_view text, std::string_view name) {
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
  std::uint64_t begin;  // file offsets
  std::uint64_t end;
  std::int64_t nonempty_since_ms;  // unix time of the first append after it was empty; 0: unknown
};

Result<std::unique_ptr<Spool>> Spool::open(const std::filesystem::path& path, std::size_t max_bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_error(path, "open");
  const auto fail_open = [fd](auto error) {
    ::close(fd);
    return error;
  };
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return fail_open(fail(ErrorCode::kConflict, "spool_locked", {}, path.string()));
  }
  struct stat status {};
  if (fstat(fd, &status) != 0) return fail_open(io_error(path, "fstat"));
  // The previous owner deleted the file; no process would ever find what we write.
  if (status.st_nlink == 0) return fail_open(fail(ErrorCode::kConflict, "spool_locked", {}, path.string()));
  const bool fresh = status.st_size == 0;
  if (fresh) {
    if (const int error = posix_fallocate(fd, 0, kHeaderBytes); error != 0) {
      errno = error;
      return fail_open(io_error(path, "allocate"));
    }
  } else if (static_cast<std::uint64_t>(status.st_size) < kHeaderBytes) {
    return fail_open(fail(ErrorCode::kInvalid, "spool_format", {}, path.string()));
  }
  // An adopted file may have been made with a larger limit.
  const std::size_t mapped = std::max<std::size_t>(
      kHeaderBytes + max_bytes, fresh ? kHeaderBytes : static_cast<std::size_t>(status.st_size));
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return fail_open(io_error(path, "mmap"));
  std::unique_ptr<Spool> spool(new Spool(path, fd, mapped, memory));
  Header& header = spool->header();
  if (fresh) header = Header{kMagic, kHeaderBytes, kHeaderBytes, 0};
  if (header.magic != kMagic || header.begin < kHeaderBytes || header.end < kHeaderBytes ||
      std::max(header.begin, header.end) > spool->allocated_bytes_) {
    return fail(ErrorCode::kInvalid, "spool_format", {}, path.string());
  }
  // Finish what a process killed in pop_to() or append() left.
  if (header.begin >= header.end)
    spool->rewind();
  else
    spool->scrub_unused();
  return spool;
}

// Searches the whole file regardless of the header, which the owner may be about to change.
Result<bool> Spool::mentions(const std::filesystem::path& path, std::string_view name) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ENOENT) return false;
    return io_error(path, "open");
  }
  // Chunks overlap by the name and one byte on either side.
  const std::uint64_t overlap = name.size() + 2;
  std::string chunk(kGrowthStep, '\0');
  bool found = false;
  ssize_t bytes_read = 1;
  for (std::uint64_t from = kHeaderBytes; !found && bytes_read > 0; from += kGrowthStep - overlap) {
    bytes_read = pread(fd, chunk.data(), chunk.size(), static_cast<off_t>(from));
    if (bytes_read > static_cast<ssize_t>(overlap))
      found = contains_field(std::string_view(chunk).substr(0, static_cast<std::size_t>(bytes_read)), name);
  }
  ::close(fd);
  if (bytes_read < 0) return io_error(path, "read");
  return found;
}

bool Spool::any_pending(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != kSpoolSuffix) continue;
    const auto bytes = entry.file_size(error);
    if (!error && bytes > kHeaderBytes) return true;
    if (error == std::errc::no_such_file_or_directory) error.clear();  // deleted just now, so it was empty
    if (error) return true;
  }
  return error && error != std::errc::no_such_file_or_directory;
}

Spool::Spool(std::filesystem::path path, int fd, std::size_t max_bytes, void* memory)
    : path_(std::move(path)),
      fd_(fd),
      mapped_bytes_(max_bytes),
      mapping_(memory),
      allocated_bytes_(kHeaderBytes) {
  struct stat status {};
  if (fstat(fd_, &status) == 0) allocated_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

Spool::~Spool() {
  munmap(mapping_, mapped_bytes_);
  ::close(fd_);
}

Spool::Header& Spool::header() const { return *static_cast<Header*>(mapping_); }

bool Spool::reserve(std::uint64_t end) {
  if (end > mapped_bytes_) return false;
  if (end <= allocated_bytes_) return true;
  const std::uint64_t new_size =
      std::min<std::uint64_t>(mapped_bytes_, (end + kGrowthStep - 1) / kGrowthStep * kGrowthStep);
  if (posix_fallocate(fd_, 0, static_cast<off_t>(new_size)) != 0) return false;
  allocated_bytes_ = new_size;
  return true;
}

bool Spool::append(std::string_view payload) {
  const std::uint64_t start = header().end;
  const std::uint64_t end = start + sizeof(EntryHeader) + padded(payload.size());
  if (end > mapped_bytes_ || !reserve(end)) return false;
  const std::int64_t now = unix_ms();
  const EntryHeader record{payload.size(), checksum(payload, now), now};
  auto* destination = static_cast<char*>(mapping_) + start;
  std::memcpy(destination, &record, sizeof record);
  std::memcpy(destination + sizeof record, payload.data(), payload.size());
  if (empty()) header().nonempty_since_ms = unix_ms();
  // Publish the end last: if the process is killed before, the append has not happened.
  __atomic_store_n(&header().end, end, __ATOMIC_RELEASE);
  return true;
}

bool Spool::empty() const { return header().begin == header().end; }
std::uint64_t Spool::bytes() const { return header().end - header().begin; }
milliseconds Spool::age() const {
  if (empty() || header().nonempty_since_ms == 0) return milliseconds(0);
  return elapsed_since(header().nonempty_since_ms);
}
std::uint64_t Spool::begin() const { return header().begin; }

std::uint64_t Spool::valid_end(std::uint64_t position) const {
  const std::uint64_t end = header().end;
  EntryHeader record{};
  if (position > end || end - position < sizeof record) return 0;
  const auto* source = static_cast<const char*>(mapping_) + position;
  std::memcpy(&record, source, sizeof record);
  if (record.size > end - position - sizeof record) return 0;
  const std::uint64_t next = position + sizeof record + padded(record.size);
  if (next > end) return 0;
  return checksum({source + sizeof record, record.size}, record.appended_at_ms) == record.checksum ? next : 0;
}

std::optional<Spool::Entry> Spool::at(std::uint64_t position) {
  const std::uint64_t end = header().end;
  if (position >= end) return std::nullopt;
  EntryHeader record{};
  const auto* source = static_cast<const char*>(mapping_) + position;
  if (end - position >= sizeof record) std::memcpy(&record, source, sizeof record);
  if (const std::uint64_t next = valid_end(position); next != 0) {
    const std::string_view payload(source + sizeof record, record.size);
    const bool erased = payload.find_first_not_of('\0') == std::string_view::npos;
    return Entry{false, erased, payload, next, elapsed_since(record.appended_at_ms)};
  }
  damaged_ = true;
  // The size may be wrong too; trust it only if it leads to a valid entry.
  if (record.size < end - position) {
    const std::uint64_t next = position + sizeof record + padded(record.size);
    if (valid_end(next) != 0) return Entry{true, false, {}, next, {}};
  }
  header().end = position;
  scrub(position, end);  // if killed before, when it is opened next
  return std::nullopt;
}

// If the process is killed in between, the entry is torn.
void Spool::erase(std::uint64_t position) {
  auto* destination = static_cast<char*>(mapping_) + position;
  EntryHeader record{};
  std::memcpy(&record, destination, sizeof record);
  char* payload = destination + sizeof record;
  std::memset(payload, 0, record.size);
  record.checksum = checksum({payload, record.size}, record.appended_at_ms);
  std::memcpy(destination, &record, sizeof record);
}

// Erases popped entries from the file, because they may name readers. If the process is killed
// after `begin` has moved, the next open() does it.
void Spool::pop_to(std::uint64_t position) {
  Header& h = header();
  const std::uint64_t from = h.begin;
  h.begin = std::min(position, h.end);
  if (h.begin == h.end)
    rewind();
  else
    scrub(from, h.begin);
}

// At every moment begin >= end, which means empty.
void Spool::rewind() {
  Header& h = header();
  __atomic_store_n(&h.end, kHeaderBytes, __ATOMIC_RELEASE);
  __atomic_store_n(&h.begin, kHeaderBytes, __ATOMIC_RELEASE);
  if (!truncate(kHeaderBytes)) scrub(kHeaderBytes, allocated_bytes_);
}

// REQUIRES: the bytes are allocated, so that writing them cannot fail.
void Spool::scrub(std::uint64_t from, std::uint64_t to) {
  if (to > from) std::memset(static_cast<char*>(mapping_) + from, 0, to - from);
}

void Spool::scrub_unused() {
  scrub(kHeaderBytes, header().begin);
  if (!truncate(header().end)) scrub(header().end, allocated_bytes_);
}

bool Spool::truncate(std::uint64_t end) {
  if (allocated_bytes_ <= end) return true;
  if (ftruncate(fd_, static_cast<off_t>(end)) != 0) return false;
  allocated_bytes_ = end;
  return true;
}

void Spool::unlink() { std::filesystem::remove(path_); }

}  // namespace freshet::redis
