#include "core/base/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/error_of.h"

namespace freshet {
namespace {

using test::error_of;

TEST_CASE("the error for an unreadable file has its path and the cause", "[secret]") {
  std::string folder = (std::filesystem::temp_directory_path() / "read_file-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/file";
  CHECK(error_of(read_whole_file(path)).detail == path + ": cannot be read: No such file or directory");
  CHECK(read_access_error(path) == ENOENT);
  std::ofstream(path) << std::string("a\0b\n", 4);
  CHECK(read_whole_file(path, 4) == std::string("a\0b\n", 4));
  CHECK(read_access_error(path) == 0);
  CHECK(error_of(read_whole_file(path, 3)).detail == path + ": cannot be read: File too large");
  CHECK(error_of(read_whole_file("/dev/zero", 100'000)).detail ==
        "/dev/zero: cannot be read: File too large");
  CHECK(read_access_error(folder) == EISDIR);
  for (const Error& error : {error_of(read_whole_file(folder)), error_of(read_secret(folder))}) {
    CHECK(error.code == ErrorCode::kInvalid);
    CHECK(error.detail == folder + ": cannot be read: Is a directory");
  }
  if (geteuid() != 0) {  // root may read every file
    chmod(path.c_str(), 0);
    CHECK(error_of(read_whole_file(path)).code == ErrorCode::kForbidden);
    CHECK(error_of(read_secret(path)).detail == path + ": cannot be read: Permission denied");
    CHECK(read_access_error(path) == EACCES);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("user and password of a URL are redacted, also if it is malformed", "[secret]") {
  struct {
    const char* url;
    const char* shown;
  } const urls[] = {{"redis://u:sekret@h:1/0", "redis://***@h:1/0"},
                    {"redis://sekret@h", "redis://***@h"},
                    {"redis://u:a@b:/se@h", "redis://***@h"},
                    {"redis:u:sekret@h:6379", "redis:***@h:6379"},
                    {"rediss://u:sekret@h", "rediss://***@h"},
                    {"//u:sekret@h", "//***@h"},
                    {"sekret@h:6379", "***@h:6379"},
                    {"http://@h", "http://***@h"},
                    {"@", "***@"},
                    {"redis://h:6379", "redis://h:6379"},
                    {"unix:///run/a@b.sock", "unix:///run/a@b.sock"},
                    {"", ""}};
  for (const auto& [url, shown] : urls) CHECK(redact_credentials(url) == shown);
}

}  // namespace
}  // namespace freshet
