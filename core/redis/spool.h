// File of events (spool_record.h) that outlives the process that wrote it. Holds acknowledged
// events while Redis is unavailable.
//
// The file is memory-mapped, so an append costs a copy and survives kill -9 of the process (but not
// a power failure, because the kernel writes it back later). Space is allocated before it is
// written, so a full disk is an error here and never a SIGBUS. Popped entries are erased from the
// file at once, because they may name readers; what a killed process left behind is erased when the
// file is opened next. One process owns a file at a time (flock); a dead process's file can be
// opened by any other. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::redis {

inline constexpr std::string_view kSpoolSuffix = ".spool";  // file extension

class Spool {
 public:
  struct Entry {
    bool torn;
    bool erased;               // by erase(); there is nothing to apply
    std::string_view payload;  // valid until the next pop_to() or append()
    std::uint64_t next;        // pass to pop_to()
    milliseconds age;          // since it was appended, by the Redis clock (redis_clock.h)
  };

  // Opens or creates the file and locks it. Errors: kConflict "spool_locked" (another process owns
  // it, or has just deleted it: retry), kUnavailable "spool_io", kInvalid "spool_format" (not a
  // spool; left untouched).
  static Result<std::unique_ptr<Spool>> open(const std::filesystem::path& path, std::size_t max_bytes);
  // Returns true if the file, which another process may own, contains `name` as a field of an
  // event, including entries that are popped but not erased yet. False if there is no such file.
  // Errors: kUnavailable "spool_io". O(bytes).
  static Result<bool> mentions(const std::filesystem::path& path, std::string_view name);
  // Returns true if any spool in the folder has an event or cannot be read. O(files).
  static bool any_pending(const std::filesystem::path& folder);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Returns false if it does not fit in max_bytes or the disk is full; nothing is written then.
  // O(bytes).
  bool append(std::string_view payload);
  bool empty() const;
  std::uint64_t bytes() const;  // of the entries that are not popped
  // How long the spool has not been empty, including under earlier owners; 0 if it is empty. No
  // entry is older. By the same clock.
  milliseconds age() const;
  std::uint64_t begin() const;  // position of the oldest entry
  // The entry at `position`, or nullopt at the end. An entry with a wrong checksum (a power failure
  // tore it) is returned as torn if a valid one follows; otherwise it ends the file and everything
  // from it on is dropped. is_damaged() reports both.
  std::optional<Entry> at(std::uint64_t position);
  // Overwrites the entry at `position` with zeros. It takes up space until it is popped.
  // REQUIRES: at(position) has returned an entry.
  void erase(std::uint64_t position);
  // Erases everything before `position`. An empty spool starts over at the beginning of the file.
  void pop_to(std::uint64_t position);
  bool is_damaged() const { return damaged_; }
  const std::filesystem::path& path() const { return path_; }
  // Deletes the file. REQUIRES: empty().
  void unlink();

 private:
  struct Header;
  Spool(std::filesystem::path path, int fd, std::size_t max_bytes, void* memory);
  Header& header() const;
  bool reserve(std::uint64_t end);
  // End of the entry at `position`; 0 if it is not valid.
  std::uint64_t valid_end(std::uint64_t position) const;
  void rewind();
  void scrub_unused();                               // everything but the header and the entries
  void scrub(std::uint64_t from, std::uint64_t to);  // overwrites with zeros; O(bytes)
  bool truncate(std::uint64_t end);                  // shortens the file; false on failure

  std::filesystem::path path_;
  int fd_;
  std::size_t mapped_bytes_;
  void* mapping_;
  std::uint64_t allocated_bytes_;
  bool damaged_ = false;
};

}  // namespace freshet::redis
