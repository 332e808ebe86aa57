// Checks across directives: sums and orders that no single range can say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"

namespace freshet::config {

struct Finding {
  bool is_error = true;
  // The directives at fault; the file and line of the one set last is what the message names.
  std::vector<std::string_view> names;
  std::string text;
};

// `somaxconn` is the kernel's bound on listen.backlog, 0 when unknown. Opens no file except to see
// that the named ones can be read.
std::vector<Finding> check_settings(const Settings& settings, int somaxconn);

// True iff `address` is a TCP address (host:port) that machines other than this one can reach.
// "*:9000" is.
bool is_public_address(std::string_view address);

}  // namespace freshet::config
