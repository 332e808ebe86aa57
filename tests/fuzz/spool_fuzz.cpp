// libFuzzer: reading an adopted spool file ends whatever it holds, an unchanged file is read as it
// was written, and an event appended to what is left is read back.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/redis/spool.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::Input;
using fuzz::require;
using redis::Spool;

constexpr std::size_t kMaxBytes = 1 << 16;

// On tmpfs, so that thousands of files can be created per second.
const std::filesystem::path& file() {
  static const std::filesystem::path path = "/dev/shm/freshet-spool-fuzz-" + std::to_string(getpid());
  return path;
}

void overwrite(std::uint64_t at, std::string_view bytes) {
  const int fd = open(file().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  require(fd >= 0 && pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)) >= 0);
  close(fd);
}

std::vector<std::string> fill(Spool& spool, Input& input) {
  std::vector<std::string> payloads;
  for (int count = input.number<std::uint8_t>() % 5; count > 0; --count) {
    payloads.emplace_back(input.text(input.number<std::uint8_t>()));
    require(spool.append(payloads.back()));
  }
  return payloads;
}

// Terminates however damaged the file is, and touches every byte that it returns.
std::vector<std::string> read(Spool& spool) {
  std::vector<std::string> payloads;
  for (auto position = spool.begin(); const auto record = spool.at(position);) {
    require(record->next > position);
    if (!record->torn) payloads.emplace_back(record->payload);
    position = record->next;
  }
  return payloads;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Input input(bytes, size);
  struct File {
    ~File() { std::filesystem::remove(file()); }
  } const remover;
  std::vector<std::string> written;
  if (input.number<std::uint8_t>() % 4 != 0) {
    auto spool = Spool::open(file(), kMaxBytes);
    require(spool.has_value());
    written = fill(**spool, input);
  }
  const bool untouched = input.empty() && !written.empty();
  // Overwrites parts of the header and of the entries.
  for (int turns = 0; turns < 8 && !input.empty(); ++turns) {
    const std::uint64_t at = input.number<std::uint8_t>() % 2 == 0 ? 0 : 4096;
    const std::uint64_t offset = input.number<std::uint16_t>() % 512;
    overwrite(at + offset, input.text(input.number<std::uint8_t>() % 32));
  }
  require(Spool::mentions(file(), "x").has_value());
  auto opened = Spool::open(file(), kMaxBytes);
  if (!opened) return 0;
  Spool& spool = **opened;
  const auto found = read(spool);
  if (untouched) require(found == written && !spool.is_damaged());
  if (spool.append("appended")) {
    const auto with_more = read(spool);
    require(with_more.size() == found.size() + 1 && with_more.back() == "appended");
  }
  spool.pop_to(spool.begin() + spool.bytes());
  require(spool.empty() && read(spool).empty());
  return 0;
}
