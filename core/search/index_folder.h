// The folder of the search index: its time slices, and who may write.
//
//   XAPIANDB             lists the slices; a Xapian stub file, replaced by rename
//   {begin}-{end}.{n}/   a Xapian database of the items published in [begin, end), unix s; n is
//                        new for every folder
//   lock                 empty; see IndexLock
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"

namespace freshet::search {

// Slices begin and end at multiples of this since 1970, unless a neighbor leaves less space.
inline constexpr seconds kSliceSpan{7 * 86400};
UnixSeconds slice_start(UnixSeconds at);  // the last such multiple that is not after `at`

struct TimeSlice {
  UnixSeconds begin, end;
  std::uint64_t serial = 0;
  std::string folder_name() const;
  bool contains(UnixSeconds published) const { return begin <= published && published < end; }
  bool operator==(const TimeSlice&) const = default;
};

// Throws std::system_error or std::filesystem::filesystem_error on I/O errors.
class IndexFolder {
 public:
  explicit IndexFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path lock_file() const { return path_ / "lock"; }
  std::filesystem::path stub_file() const { return path_ / "XAPIANDB"; }
  std::string path_of(const TimeSlice& slice) const { return path_ / slice.folder_name(); }
  // Oldest first, without overlaps. nullopt if there is no index.
  std::optional<std::vector<TimeSlice>> slices() const;
  // Replaces the list durably. Readers see either the old or the new list.
  void publish(const std::vector<TimeSlice>& slices) const;
  // Removes the folders of slices that are not in `keep`.
  void remove_except(const std::vector<TimeSlice>& keep) const;
  // Greater than the serial of any folder.
  std::uint64_t next_serial() const;

 private:
  std::filesystem::path path_;
};

// Advisory locks on bytes of the folder's lock file; the kernel releases them when the process
// exits.
class IndexLock {
 public:
  enum class Scope : std::uint8_t {
    kWriter,   // held during the lifetime of a SearchIndex
    kRebuild,  // held during the lifetime of an IndexRebuild
    kBatch,    // held from a writer's first change to its commit, and by an IndexRebuild
  };
  explicit IndexLock(const std::filesystem::path& file);  // throws std::system_error
  IndexLock(const IndexLock&) = delete;
  IndexLock& operator=(const IndexLock&) = delete;
  ~IndexLock();

  bool try_lock(Scope scope);
  void lock(Scope scope);  // throws std::system_error
  void unlock(Scope scope);
  bool is_held_elsewhere(Scope scope) const;

 private:
  int fd_;
};

}  // namespace freshet::search
