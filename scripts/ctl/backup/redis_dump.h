// Redis' part of a backup (redis.dump): a sequence of records.
//
//   "FRESHET REDIS 3\n", then records:
//     type (1 byte), key length (4), expiry (8: Unix ms, 0: never), body length (4), key, body
//   Numbers are little-endian. Bodies by type; members are prefixed by their lengths (4):
//     kString     the value
//     kHash       members: alternately field and value
//     kList       members, first to last
//     kSet        members
//     kSortedSet  members: alternately member and score
//     kEntry      members: the id of a stream's entry, then alternately field and value
//     kBloom      members: number and data of a chunk of BF.SCANDUMP
//     kEnd        number of the records before it (8)
//   A large key has several records. kEnd is the last record, so a truncated file is detected.
//   "FRESHET REDIS 2\n" has the same records, of a Redis with schema 2 (convert_dump.h).
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
  enum class Type : char {
    kString = 'T',
    kHash = 'H',
    kList = 'L',
    kSet = 'S',
    kSortedSet = 'Z',
    kEntry = 'X',
    kBloom = 'B',
    kEnd = 'E'
  };
  Type type = Type::kString;
  std::string key;
  std::int64_t expires_ms = 0;
  std::string value;                 // kString
  std::vector<std::string> members;  // all others
};

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

class DumpWriter {
 public:
  // Creates the file. Errors of all methods: kUnavailable "backup_io".
  static Result<DumpWriter> create(const std::string& path);
  Result<void> add(const DumpRecord& record);
  Result<void> finish();  // writes kEnd and syncs the file
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
  // Errors of both methods: kInvalid "bad_backup", with the file's name and the offset in the
  // detail.
  static Result<DumpReader> open(const std::string& path);
  bool has_old_schema() const { return has_old_schema_; }
  // Reads the next record. False: end of a complete file. Memory: one record.
  Result<bool> next(DumpRecord& record);

 private:
  DumpReader(std::string path, File file, std::int64_t bytes)
      : path_(std::move(path)), file_(std::move(file)), remaining_(bytes) {}
  Result<void> read_bytes(std::string& out, std::size_t bytes);
  tl::unexpected<Error> invalid(std::string_view problem) const;

  std::string path_;
  File file_;
  std::int64_t remaining_;  // unread bytes of the file
  std::int64_t offset_ = 0, records_ = 0;
  bool has_old_schema_ = false;
};

}  // namespace freshet::ctl
