// One directive by its name: set to a value that came from elsewhere than a file, and read.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet {

// `value` as a person writes it in the file, without quotes: "1.5", "6h". Bounds and units are the
// directive's. Errors: kInvalid "bad_parameter", `name`. REQUIRES: `name` is a directive that is a
// number or a time.
Result<void> override_directive(std::string_view name, std::string_view value, Settings& settings);

// Its value in the unit of its field, times as a count. REQUIRES: as above.
double directive_value(std::string_view name, const Settings& settings);

}  // namespace freshet
