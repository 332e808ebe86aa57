#include "scripts/ctl/backup/redis_dump.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace freshet::ctl {
namespace {

constexpr std::string_view kMagic = "FRESHET REDIS 1\n";
constexpr std::size_t kHead = 1 + 4 + 8 + 4;

void put_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255U);
}

std::uint64_t number_at(std::string_view text, std::size_t at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;)
    value = value << 8U | static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
  return value;
}

std::string body_of(const DumpRecord& record) {
  if (record.kind == DumpRecord::Kind::kValue) return record.value;
  std::string out;
  for (const std::string& each : record.members) {
    put_number(out, each.size(), 4);
    out += each;
  }
  return out;
}

// False: lengths and bytes do not fit together.
bool split(std::string_view body, std::vector<std::string>& out) {
  out.clear();
  while (!body.empty()) {
    const std::size_t size = body.size() < 4 ? body.size() : number_at(body, 0, 4);
    if (body.size() < 4 || body.size() - 4 < size) return false;
    out.emplace_back(body.substr(4, size));
    body.remove_prefix(4 + size);
  }
  return true;
}

tl::unexpected<Error> io(const std::string& path) {
  return fail(ErrorCode::kUnavailable, "backup_io", {}, path + ": " + std::strerror(errno));
}

std::string encoded(const DumpRecord& record, std::string_view body) {
  std::string out(1, static_cast<char>(record.kind));
  put_number(out, record.key.size(), 4);
  put_number(out, static_cast<std::uint64_t>(record.expires_ms), 8);
  put_number(out, body.size(), 4);
  return out.append(record.key).append(body);
}

}  // namespace

Result<DumpWriter> DumpWriter::create(const std::string& path) {
  File file(std::fopen(path.c_str(), "wxe"));
  if (!file) return io(path);
  DumpWriter writer(path, std::move(file));
  if (auto ok = writer.put(kMagic); !ok) return tl::unexpected(ok.error());
  return writer;
}

Result<void> DumpWriter::put(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return io(path_);
  bytes_ += static_cast<std::int64_t>(bytes.size());
  return {};
}

Result<void> DumpWriter::add(const DumpRecord& record) {
  ++records_;
  return put(encoded(record, body_of(record)));
}

Result<void> DumpWriter::finish() {
  DumpRecord end;
  end.kind = DumpRecord::Kind::kEnd;
  std::string count;
  put_number(count, static_cast<std::uint64_t>(records_), 8);
  if (auto ok = put(encoded(end, count)); !ok) return ok;
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) return io(path_);
  return {};
}

Result<DumpReader> DumpReader::open(const std::string& path) {
  std::error_code absent;
  const auto bytes = std::filesystem::file_size(path, absent);
  File file(std::fopen(path.c_str(), "re"));
  DumpReader reader(path, std::move(file), absent ? 0 : static_cast<std::int64_t>(bytes));
  if (!reader.file_) return reader.bad(std::strerror(errno));
  std::string magic;
  if (auto ok = reader.take(magic, kMagic.size()); !ok) return tl::unexpected(ok.error());
  if (magic != kMagic) return reader.bad("not a dump of this version");
  return reader;
}

tl::unexpected<Error> DumpReader::bad(std::string_view what) const {
  const std::string name = std::filesystem::path(path_).filename().string();
  return fail(ErrorCode::kInvalid, "bad_backup", {}, fmt::format("{}: at byte {}: {}", name, read_, what));
}

// A length is believed only within what the file has.
Result<void> DumpReader::take(std::string& out, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) > left_) return bad("it ends in the middle of a record");
  out.resize(bytes);
  if (std::fread(out.data(), 1, bytes, file_.get()) != bytes) return bad("it cannot be read");
  left_ -= static_cast<std::int64_t>(bytes);
  read_ += static_cast<std::int64_t>(bytes);
  return {};
}

Result<bool> DumpReader::next(DumpRecord& record) {
  std::string head;
  if (auto ok = take(head, kHead); !ok) return tl::unexpected(ok.error());
  record.kind = static_cast<DumpRecord::Kind>(head[0]);
  record.expires_ms = static_cast<std::int64_t>(number_at(head, 5, 8));
  if (auto ok = take(record.key, number_at(head, 1, 4)); !ok) return tl::unexpected(ok.error());
  if (auto ok = take(record.value, number_at(head, 13, 4)); !ok) return tl::unexpected(ok.error());
  record.members.clear();
  switch (record.kind) {
    case DumpRecord::Kind::kValue:
      break;
    case DumpRecord::Kind::kSet:
    case DumpRecord::Kind::kSorted:
      if (!split(record.value, record.members)) return bad("lengths that contradict each other");
      break;
    case DumpRecord::Kind::kEnd:
      if (record.value.size() != 8 || number_at(record.value, 0, 8) != static_cast<std::uint64_t>(records_))
        return bad("another number of records than its end says");
      if (left_ != 0) return bad("bytes behind its end");
      return false;
    default:
      return bad("no kind of record");
  }
  ++records_;
  return true;
}

}  // namespace freshet::ctl
