#include "core/config/config_override.h"

#include <type_traits>

#include "core/config/config_directives.h"

namespace freshet {

Result<void> override_directive(std::string_view name, std::string_view value, Settings& settings) {
  const config::Directive& directive = *config::find_directive(name);
  const auto assigned = config::assign_text(directive, value, settings);
  if (!assigned) return fail(ErrorCode::kInvalid, "bad_parameter", std::string(name), assigned.error());
  return {};
}

double directive_value(std::string_view name, const Settings& settings) {
  const auto number = [](auto* field) {
    if constexpr (requires { field->count(); }) return static_cast<double>(field->count());
    if constexpr (std::is_arithmetic_v<std::remove_pointer_t<decltype(field)>>)
      return static_cast<double>(*field);
    return 0.0;
  };
  // field() returns a mutable pointer; nothing is written through it here.
  return std::visit(number, config::find_directive(name)->field(const_cast<Settings&>(settings)));
}

}  // namespace freshet
