#include "core/config/access_format.h"

#include <algorithm>
#include <array>

namespace freshet {
namespace {

enum class BraceArgument { kNone, kOneOf, kName, kTime };

struct FormatSpecifier {
  char letter;
  BraceArgument braces;
  std::string_view options;  // for kOneOf: the allowed values, each between spaces; the first is the default
};
constexpr std::array kSpecifiers{
    FormatSpecifier{'C', BraceArgument::kOneOf, " total user system "},
    FormatSpecifier{'d', BraceArgument::kOneOf, " seconds milliseconds milli microseconds micro "},
    FormatSpecifier{'e', BraceArgument::kName, ""},
    FormatSpecifier{'f', BraceArgument::kNone, ""},
    FormatSpecifier{'l', BraceArgument::kNone, ""},
    FormatSpecifier{'m', BraceArgument::kNone, ""},
    FormatSpecifier{'M', BraceArgument::kOneOf, " bytes kilobytes kilo megabytes mega "},
    FormatSpecifier{'n', BraceArgument::kNone, ""},
    FormatSpecifier{'o', BraceArgument::kName, ""},
    FormatSpecifier{'p', BraceArgument::kNone, ""},
    FormatSpecifier{'P', BraceArgument::kNone, ""},
    FormatSpecifier{'q', BraceArgument::kNone, ""},
    FormatSpecifier{'Q', BraceArgument::kNone, ""},
    FormatSpecifier{'r', BraceArgument::kNone, ""},
    FormatSpecifier{'R', BraceArgument::kNone, ""},
    FormatSpecifier{'s', BraceArgument::kNone, ""},
    FormatSpecifier{'t', BraceArgument::kTime, ""},
    FormatSpecifier{'T', BraceArgument::kTime, ""},
    FormatSpecifier{'u', BraceArgument::kOneOf, " hidden id "},
    FormatSpecifier{'x', BraceArgument::kOneOf, " redis_ms round_trips route request_id zone "},
};
constexpr std::string_view kTimeFormat = "%d/%b/%Y:%H:%M:%S %z";
// Never logged, whatever the format asks for.
constexpr std::array<std::string_view, 2> kSecrets{"HTTP_COOKIE", "HTTP_AUTHORIZATION"};

tl::unexpected<Error> invalid_format(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_access_format", "access.format", std::move(detail));
}

// Removes a leading "{…}" from `rest` and returns its content; empty if there is none. The format
// of a time may not contain "%{…}".
Result<std::string> parse_braces(std::string_view& rest) {
  if (!rest.starts_with('{')) return std::string();
  const auto end = rest.find('}');
  if (end == std::string_view::npos) return invalid_format("'{' without a matching '}'");
  if (end == 1) return invalid_format("'{}' is empty");
  std::string argument(rest.substr(1, end - 1));
  rest.remove_prefix(end + 1);
  return argument;
}

Result<AccessFormatPart> make_part(char symbol, std::string argument) {
  const std::string quoted = std::string("'%") + symbol + "'";
  const auto row = std::ranges::find(kSpecifiers, symbol, &FormatSpecifier::letter);
  if (row == kSpecifiers.end()) return invalid_format(quoted + " is not a format specifier");
  if (row->braces == BraceArgument::kNone && !argument.empty())
    return invalid_format(quoted + " takes no argument in braces");
  if (row->braces == BraceArgument::kName && argument.empty())
    return invalid_format(quoted + " requires a name in braces");
  if (row->braces == BraceArgument::kTime && argument.empty()) argument = kTimeFormat;
  if (row->braces == BraceArgument::kOneOf) {
    if (argument.empty() && symbol == 'x') return invalid_format("'%x' requires a name in braces");
    if (argument.empty()) argument = row->options.substr(1, row->options.find(' ', 1) - 1);
    if (row->options.find(" " + argument + " ") == std::string_view::npos)
      return invalid_format(quoted + " has no option {" + argument + "}");
  }
  if (symbol == 'e' && std::ranges::count(kSecrets, argument) != 0)
    return invalid_format(argument + " is a secret and cannot be logged");
  return AccessFormatPart{symbol, std::move(argument)};
}

}  // namespace

Result<std::vector<AccessFormatPart>> parse_access_format(std::string_view format) {
  std::vector<AccessFormatPart> parts;
  const auto append_text = [&](std::string_view text) {
    if (text.empty()) return;
    if (parts.empty() || parts.back().specifier != 0) parts.emplace_back();
    parts.back().text.append(text);
  };
  while (!format.empty()) {
    const auto percent = std::min(format.find('%'), format.size());
    append_text(format.substr(0, percent));
    format.remove_prefix(percent);
    if (format.empty()) break;
    format.remove_prefix(1);
    FRESHET_TRY(argument, parse_braces(format));
    if (format.empty()) return invalid_format("'%' at the end");
    const char symbol = format.front();
    format.remove_prefix(1);
    if (symbol == '%') {
      if (!argument->empty()) return invalid_format("'%%' takes no argument in braces");
      append_text("%");
      continue;
    }
    FRESHET_TRY(part, make_part(symbol, std::move(*argument)));
    parts.push_back(std::move(*part));
  }
  return parts;
}

}  // namespace freshet
