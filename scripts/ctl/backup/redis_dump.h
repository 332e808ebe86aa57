// What a backup holds of Redis (redis.dump): a file of records, one after the other.
//
//   "FRESHET REDIS 1\n", then records: kind (1 byte), bytes of the key (4), when it expires (8:
//   unix ms, 0: never), bytes of the body (4), key, body. Numbers are little-endian. The body of
//   kValue is what DUMP gave, which only Redis reads; that of kSet and kSorted are strings, each
//   behind its length (4): members, or member and score by turns. A large key has several such
//   records. The last record is kEnd, its body the number of records before it (8), so that a file
//   that was cut off is never taken for a whole one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet::ctl {

struct DumpRecord {
  enum class Type : char { kValue = 'V', kSet = 'S', kSortedSet = 'Z', kEnd = 'E' };
  Type type = Type::kValue;
  std::string key;
  std::int64_t expires_ms = 0;
  std::string value;                 // kValue
  std::vector<std::string> members;  // kSet, kSorted
};

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

class DumpWriter {
 public:
  // Creates the file. Errors of all: kUnavailable "backup_io".
  static Result<DumpWriter> create(const std::string& path);
  Result<void> add(const DumpRecord& record);
  Result<void> finish();  // then it is whole, and on the disk
  std::int64_t bytes() const { return bytes_; }

 private:
  DumpWriter(std::string path, File file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<void> write(std::string_view bytes);

  std::string path_;
  File file_;
  std::int64_t records_ = 0, bytes_ = 0;
};

class DumpReader {
 public:
  // Errors of both: kInvalid "bad_backup", the file's name and the byte in the detail.
  static Result<DumpReader> open(const std::string& path);
  // False: that was the last one, and the file is whole. Memory: one record's.
  Result<bool> next(DumpRecord& record);

 private:
  DumpReader(std::string path, File file, std::int64_t bytes)
      : path_(std::move(path)), file_(std::move(file)), remaining_(bytes) {}
  Result<void> read_bytes(std::string& out, std::size_t bytes);
  tl::unexpected<Error> invalid(std::string_view problem) const;

  std::string path_;
  File file_;
  std::int64_t remaining_;  // bytes of the file that are still to be read
  std::int64_t offset_ = 0, records_ = 0;
};

}  // namespace freshet::ctl
