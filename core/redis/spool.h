// A file of events (stored_event.h) that outlives the process which wrote it: what was acknowledged
// while Redis was away waits here.
//
// The file is mapped into memory, so an append costs a copy and survives kill -9 of the process
// (not a power cut: the kernel writes it out in its own time). Space is allocated before it is
// written, so a full disk is an error here and never a SIGBUS. Records that are popped leave the
// file at once, since they may name readers; what a killed process could not remove goes when the
// file is opened next. One process owns a file at a time (flock); the file of a dead process can be
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

inline constexpr std::string_view kSpoolSuffix = ".spool";  // of the file's name

class Spool {
 public:
  struct Entry {
    bool torn;
    std::string_view payload;  // valid until the next pop_to() or append()
    std::uint64_t next;        // hand to pop_to()
    milliseconds age;          // since it was appended, by the clock that all hosts agree on
  };

  // Opens or creates the file and takes its lock. Errors: kConflict "spool_locked" (another process
  // has it, or deleted it meanwhile: again), kUnavailable "spool_io", kInvalid "spool_format" (not
  // one of ours; left untouched).
  static Result<std::unique_ptr<Spool>> open(const std::filesystem::path& path, std::size_t max_bytes);
  // Whether the file, which may be another process', holds `name` as a field of an event. Also in
  // what was popped and not yet removed. False when there is no such file. Errors: kUnavailable
  // "spool_io". O(bytes).
  static Result<bool> mentions(const std::filesystem::path& path, std::string_view name);
  // Whether any spool in the folder has an event, or cannot be looked at. O(files).
  static bool any_pending(const std::filesystem::path& folder);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // False when it would not fit in max_bytes or the disk is full; then nothing was written.
  // O(bytes).
  bool append(std::string_view payload);
  bool empty() const;
  std::uint64_t bytes() const;  // waiting
  // How long it has not been empty, also in its earlier owners' hands; 0 when it is. What waits in
  // it is at most so old. By the same clock.
  milliseconds age() const;
  std::uint64_t begin() const;  // position of the oldest record
  // The record at `position`, or nullopt at the end. One whose checksum is wrong (a power cut tore
  // it) is told as torn when what follows it is whole; else it ends the file, and all behind it is
  // dropped. damaged() tells of both.
  std::optional<Entry> at(std::uint64_t position);
  // Forgets everything before `position`. When nothing is left the file starts over from its
  // beginning.
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
  std::uint64_t valid_end(std::uint64_t position) const;  // where the record there ends; 0: it is not whole
  void rewind();
  void scrub_unused();                               // what is neither header nor a record
  void scrub(std::uint64_t from, std::uint64_t to);  // overwrites; O(bytes)
  bool truncate(std::uint64_t end);                        // shortens the file

  std::filesystem::path path_;
  int fd_;
  std::size_t mapped_bytes_;  // that are mapped
  void* mapping_;
  std::uint64_t allocated_bytes_;
  bool damaged_ = false;
};

}  // namespace freshet::redis
