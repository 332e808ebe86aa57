// Reference data of the directives for manual pages, taken from the table that reads the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace freshet {

struct DirectiveReference {
  std::string_view name;
  std::string_view description;
  std::string default_value;    // the default as TOML, such as "30s" with its quotes
  std::string accepted_values;  // type, unit and range or choices: `a time in seconds, 1s to 1h`
};

// All directives, in the order of the shipped file.
std::vector<DirectiveReference> directive_references();

}  // namespace freshet
