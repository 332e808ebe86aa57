#include "scripts/ctl/backup/redis_dump.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace freshet::ctl {
namespace {

constexpr std::string_view kMagic = "FRESHET REDIS 3\n", kOldMagic = "FRESHET REDIS 2\n";
constexpr std::size_t kHeaderSize = 1 + 4 + 8 + 4;

void append_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255U);
}

std::uint64_t number_at(std::string_view text, std::size_t at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;)
    value = value << 8U | static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
  return value;
}

std::string encode_body(const DumpRecord& record) {
  if (record.members.empty()) return record.value;
  std::string out;
  for (const std::string& each : record.members) {
    append_number(out, each.size(), 4);
    out += each;
  }
  return out;
}

// False: the lengths do not add up to the body.
bool split_members(std::string_view body, std::vector<std::string>& out) {
  out.clear();
  while (!body.empty()) {
    const std::size_t size = body.size() < 4 ? body.size() : number_at(body, 0, 4);
    if (body.size() < 4 || body.size() - 4 < size) return false;
    out.emplace_back(body.substr(4, size));
    body.remove_prefix(4 + size);
  }
  return true;
}

tl::unexpected<Error> io_error(const std::string& path) {
  return fail(ErrorCode::kUnavailable, "backup_io", {}, path + ": " + std::strerror(errno));
}

std::string encode_record(const DumpRecord& record, std::string_view body) {
  std::string out(1, static_cast<char>(record.type));
  append_number(out, record.key.size(), 4);
  append_number(out, static_cast<std::uint64_t>(record.expires_ms), 8);
  append_number(out, body.size(), 4);
  return out.append(record.key).append(body);
}

}  // namespace

Result<DumpWriter> DumpWriter::create(const std::string& path) {
  File file(std::fopen(path.c_str(), "wxe"));
  if (!file) return io_error(path);
  DumpWriter writer(path, std::move(file));
  if (auto ok = writer.write(kMagic); !ok) return tl::unexpected(ok.error());
  return writer;
}

Result<void> DumpWriter::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return io_error(path_);
  bytes_ += static_cast<std::int64_t>(bytes.size());
  return {};
}

Result<void> DumpWriter::add(const DumpRecord& record) {
  ++records_;
  return write(encode_record(record, encode_body(record)));
}

Result<void> DumpWriter::finish() {
  DumpRecord end;
  end.type = DumpRecord::Type::kEnd;
  std::string count;
  append_number(count, static_cast<std::uint64_t>(records_), 8);
  if (auto ok = write(encode_record(end, count)); !ok) return ok;
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) return io_error(path_);
  return {};
}

Result<DumpReader> DumpReader::open(const std::string& path) {
  std::error_code absent;
  const auto bytes = std::filesystem::file_size(path, absent);
  File file(std::fopen(path.c_str(), "re"));
  DumpReader reader(path, std::move(file), absent ? 0 : static_cast<std::int64_t>(bytes));
  if (!reader.file_) return reader.invalid(std::strerror(errno));
  std::string magic;
  if (auto ok = reader.read_bytes(magic, kMagic.size()); !ok) return tl::unexpected(ok.error());
  reader.has_old_schema_ = magic == kOldMagic;
  if (magic != kMagic && magic != kOldMagic) return reader.invalid("not a dump in this version's format");
  return reader;
}

tl::unexpected<Error> DumpReader::invalid(std::string_view problem) const {
  const std::string name = std::filesystem::path(path_).filename().string();
  return fail(ErrorCode::kInvalid, "bad_backup", {},
              fmt::format("{}: at byte {}: {}", name, offset_, problem));
}

// Checks the length against the rest of the file before allocating.
Result<void> DumpReader::read_bytes(std::string& out, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) > remaining_) return invalid("the file ends within a record");
  out.resize(bytes);
  if (std::fread(out.data(), 1, bytes, file_.get()) != bytes) return invalid("read error");
  remaining_ -= static_cast<std::int64_t>(bytes);
  offset_ += static_cast<std::int64_t>(bytes);
  return {};
}

Result<bool> DumpReader::next(DumpRecord& record) {
  std::string head;
  if (auto ok = read_bytes(head, kHeaderSize); !ok) return tl::unexpected(ok.error());
  record.type = static_cast<DumpRecord::Type>(head[0]);
  record.expires_ms = static_cast<std::int64_t>(number_at(head, 5, 8));
  if (auto ok = read_bytes(record.key, number_at(head, 1, 4)); !ok) return tl::unexpected(ok.error());
  if (auto ok = read_bytes(record.value, number_at(head, 13, 4)); !ok) return tl::unexpected(ok.error());
  record.members.clear();
  switch (record.type) {
    case DumpRecord::Type::kString:
      break;
    case DumpRecord::Type::kHash:
    case DumpRecord::Type::kList:
    case DumpRecord::Type::kSet:
    case DumpRecord::Type::kSortedSet:
    case DumpRecord::Type::kEntry:
    case DumpRecord::Type::kBloom:
      if (!split_members(record.value, record.members)) return invalid("inconsistent lengths");
      break;
    case DumpRecord::Type::kEnd:
      if (record.value.size() != 8 || number_at(record.value, 0, 8) != static_cast<std::uint64_t>(records_))
        return invalid("the number of records differs from the one at the end");
      if (remaining_ != 0) return invalid("data after the last record");
      return false;
    default:
      return invalid("unknown record type");
  }
  ++records_;
  return true;
}

}  // namespace freshet::ctl
