// access.format: parses and checks PHP-FPM's format specifiers (its fpm_log.c and the comments of
// its www.conf). fcgi/observe/access_line.h fills them in.
//
//   as in PHP-FPM: %% %C %d %e %f %l %m %M %n %o %p %P %q %Q %r %R %s %t %T %u
//   added:         %{…}x
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet {

struct AccessFormatPart {
  char specifier = 0;  // 0: literal text
  std::string text;    // literal text, or the specifier's {argument}
};

// Error: kInvalid "bad_access_format", with the reason in the detail.
Result<std::vector<AccessFormatPart>> parse_access_format(std::string_view format);

}  // namespace freshet
