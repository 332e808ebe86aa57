#include "core/config/config_override.h"

#include <charconv>
#include <type_traits>

#include "core/config/config_directives.h"

namespace freshet {

Result<void> override_directive(std::string_view name, std::string_view value, Settings& settings) {
  const config::Directive& directive = *config::find_directive(name);
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = error == std::errc() && end == value.data() + value.size();
  const bool is_integer =
      is_number && value.find_first_not_of("0123456789") == std::string_view::npos && value.size() <= 18;
  const auto assigned = [&] {
    if (is_integer)
      return config::assign(directive, toml::value<std::int64_t>(static_cast<std::int64_t>(number)),
                            settings);
    if (is_number) return config::assign(directive, toml::value<double>(number), settings);
    return config::assign(directive, toml::value<std::string>(std::string(value)), settings);
  }();
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
