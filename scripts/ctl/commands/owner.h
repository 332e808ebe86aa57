// Keeps the service's files owned by the service's account when root runs the tool.
#pragma once

#include <string>

#include "core/base/result.h"

namespace freshet::ctl {

// Under root, switches this process permanently to the owner of `path` (of its folder if absent):
// index files created by root would lock out the service. No-op for other users. Errors: kNotFound
// "no_file", kInternal "owner".
Result<void> switch_to_owner(const std::string& path);

}  // namespace freshet::ctl
