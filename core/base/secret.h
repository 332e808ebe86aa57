// Keys and passwords stored in files.
#pragma once

#include <string>

#include "core/base/result.h"

namespace freshet {

// Returns the file's content without trailing newlines. A relative name is resolved in systemd's
// $CREDENTIALS_DIRECTORY if that is set. Error: kInvalid "bad_secret", with the path in the detail,
// if the file is unreadable or empty.
Result<std::string> read_secret(const std::string& name);

}  // namespace freshet
