// Who works on the service's files: their owner, also when root calls.
#pragma once

#include <string>

#include "core/base/result.h"

namespace freshet::ctl {

// Run by root this process becomes, for good, the owner of `path` (of its folder when it is
// absent): files of the index that root made would lock the service out. Anybody else: nothing
// happens. Errors: kNotFound "no_file", kInternal "owner".
Result<void> switch_to_owner(const std::string& path);

}  // namespace freshet::ctl
