// Reads whole files, such as keys and passwords.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace freshet {

// The content of a regular file, a pipe or a device. Errors, with path and cause in the detail:
// kForbidden "unreadable_file" if this process has no permission, else kInvalid "unreadable_file";
// also if the path is a folder or there are more than `max_bytes`.
Result<std::string> read_whole_file(const std::string& path, std::size_t max_bytes = SIZE_MAX);

// errno of an attempt to read the file, 0 if it can be read. Does not open it.
int read_access_error(const std::string& path);

// Returns the file's content without trailing newlines. A relative name is resolved in systemd's
// $CREDENTIALS_DIRECTORY if that is set. Errors: as read_whole_file(), with the reason
// "bad_secret", also if the file is empty or larger than 1 MiB.
Result<std::string> read_secret(const std::string& name);

// Returns true for a path in $CREDENTIALS_DIRECTORY if this process cannot look into that folder:
// systemd 252 hides it from ExecReload commands.
bool is_hidden_credential(const std::string& path);

// The URL, which may be malformed, with *** in place of user and password: the part between "//",
// or the scheme's colon, and the last "@". Paths of unix:/// are unchanged.
std::string redact_credentials(std::string_view url);

}  // namespace freshet
