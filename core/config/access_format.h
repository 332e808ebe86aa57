// access.format: PHP-FPM's letters (its fpm_log.c and the comments of its www.conf), parsed and
// checked. What they are filled with is the business of fcgi/observe/access_line.h.
//
//   %% %C %d %e %f %l %m %M %n %o %p %P %q %Q %r %R %s %t %T %u as there, and %{…}x, which is ours
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet {

struct AccessFormatPart {
  char specifier = 0;   // 0: the text as it is
  std::string text;  // of a letter: what stood in its braces
};

// Error: kInvalid, "bad_access_format", with a detail that names what is wrong.
Result<std::vector<AccessFormatPart>> parse_access_format(std::string_view format);

}  // namespace freshet
