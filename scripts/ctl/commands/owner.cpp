#include "scripts/ctl/commands/owner.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace freshet::ctl {
namespace {

tl::unexpected<Error> owner_error(const char* operation) {
  return fail(ErrorCode::kInternal, "owner", {}, std::string(operation) + ": " + std::strerror(errno));
}

}  // namespace

Result<void> switch_to_owner(const std::string& path) {
  if (geteuid() != 0) return {};
  struct stat status {};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (stat(path.c_str(), &status) != 0 && stat(folder.c_str(), &status) != 0)
    return fail(ErrorCode::kNotFound, "no_file", {}, path + ": " + std::strerror(errno));
  if (status.st_uid == 0) return {};
  const passwd* user = getpwuid(status.st_uid);
  const int groups = user ? initgroups(user->pw_name, status.st_gid) : setgroups(0, nullptr);
  if (groups != 0) return owner_error("groups");
  if (setgid(status.st_gid) != 0) return owner_error("setgid");
  if (setuid(status.st_uid) != 0) return owner_error("setuid");
  return {};
}

}  // namespace freshet::ctl
