// Sets and reads single directives by name, for values that do not come from a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet {

// Sets a directive to `value`, written as in the file but without quotes: "1.5", "6h". The
// directive's unit and range apply. Error: kInvalid "bad_parameter" for the member `name`.
// REQUIRES: `name` is a directive that takes a number or a time.
Result<void> override_directive(std::string_view name, std::string_view value, Settings& settings);

// The directive's current value in the unit of its field; times as a count. REQUIRES: as above.
double directive_value(std::string_view name, const Settings& settings);

// The directive's current value: a string without quotes, anything else as directive_value().
// nullopt if there is no such directive.
std::optional<std::string> directive_text(std::string_view name, const Settings& settings);

}  // namespace freshet
