#include "core/config/config_override.h"

#include <fmt/format.h>

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

std::optional<std::string> directive_text(std::string_view name, const Settings& settings) {
  const config::Directive* const directive = config::find_directive(name);
  if (directive == nullptr) return std::nullopt;
  const auto field = directive->field(const_cast<Settings&>(settings));
  if (const auto* const text = std::get_if<std::string*>(&field)) return **text;
  return fmt::format("{}", directive_value(name, settings));
}

}  // namespace freshet
