#include "scripts/ctl/replay/resume.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

constexpr std::string_view kHeader = "freshetctl import 1\n";
constexpr std::string_view kFooter = "end\n";

template <class Number>
bool read_number(const std::map<std::string, std::string, std::less<>>& values, std::string_view name,
                 Number& out) {
  const auto found = values.find(name);
  if (found == values.end()) return false;
  const char* const end = found->second.data() + found->second.size();
  const auto read = std::from_chars(found->second.data(), end, out);
  return read.ec == std::errc() && read.ptr == end;
}

}  // namespace

Result<FileIdentity> file_identity(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return fail(ErrorCode::kNotFound, "no_file", {}, path + ": " + std::strerror(errno));
  }
  return FileIdentity{status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                      status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::string to_text(const ImportPosition& position) {
  const FileIdentity& file = position.file;
  return fmt::format(
      "{}device={}\ninode={}\nsize={}\nmodified_ns={}\ntarget={}\nshift_s={}\noffset={}\naccepted={}\n"
      "rejected={}\n{}",
      kHeader, file.device, file.inode, file.size, file.modified_ns, position.target, position.shift_s,
      position.offset, position.accepted, position.rejected, kFooter);
}

std::optional<ImportPosition> parse_position(const std::string& text) {
  if (!text.starts_with(kHeader) || !text.ends_with(kFooter)) return std::nullopt;
  std::map<std::string, std::string, std::less<>> values;
  for (std::size_t at = kHeader.size(); at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (const std::size_t equals = line.find('='); equals != std::string::npos)
      values[line.substr(0, equals)] = line.substr(equals + 1);
    at = end + 1;
  }
  ImportPosition position;
  const bool complete =
      read_number(values, "device", position.file.device) &&
      read_number(values, "inode", position.file.inode) && read_number(values, "size", position.file.size) &&
      read_number(values, "modified_ns", position.file.modified_ns) &&
      read_number(values, "shift_s", position.shift_s) && read_number(values, "offset", position.offset) &&
      read_number(values, "accepted", position.accepted) &&
      read_number(values, "rejected", position.rejected) && values.contains("target");
  if (!complete) return std::nullopt;
  position.target = values["target"];
  return position;
}

std::optional<ImportPosition> ResumeFile::read() const {
  const auto text = read_file(path_);
  return text ? parse_position(*text) : std::nullopt;
}

Result<void> ResumeFile::write(const ImportPosition& position) const {
  const std::string next = path_ + ".new";
  std::ofstream file(next, std::ios::binary | std::ios::trunc);
  file << to_text(position);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(next, path_, error);
  if (file && !error) return {};
  const std::string why = error ? error.message() : std::strerror(errno);
  return fail(ErrorCode::kUnavailable, "resume_file", {}, path_ + ": " + why);
}

void ResumeFile::remove() const {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace freshet::ctl
