// Keys and passwords that lie in files.
#pragma once

#include <string>

#include "core/base/result.h"

namespace freshet {

// The file's content without the newline that editors leave at its end. A relative name is looked
// for in systemd's $CREDENTIALS_DIRECTORY, where there is one. Errors: kInvalid "bad_secret", with
// the path in the detail: it cannot be read, or is empty.
Result<std::string> read_secret(const std::string& name);

}  // namespace freshet
