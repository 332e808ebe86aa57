// Checks that involve several directives, or more than a range.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"

namespace freshet::config {

struct Finding {
  bool is_error = true;
  // The directives at fault. The message names the file and line of the one set last.
  std::vector<std::string_view> names;
  std::string text;
};

// `somaxconn` is the kernel's limit on listen.backlog; 0: unknown. Checks that named files are
// readable but does not read them.
std::vector<Finding> check_settings(const Settings& settings, int somaxconn);

// Returns whether other machines can reach the TCP address `address` (host:port). "*:9000" counts
// as reachable.
bool is_public_address(std::string_view address);

}  // namespace freshet::config
