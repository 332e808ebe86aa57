#include "core/config/access_format.h"

#include <algorithm>
#include <array>

namespace freshet {
namespace {

enum class BraceArgument { kNone, kOneOf, kName, kTime };

struct FormatSpecifier {
  char letter;
  BraceArgument braces;
  std::string_view options;  // of kOneOf, each between spaces; without braces the first holds
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
// Secrets are not logged, whatever a format asks for.
constexpr std::array<std::string_view, 2> kSecrets{"HTTP_COOKIE", "HTTP_AUTHORIZATION"};

tl::unexpected<Error> wrong(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_access_format", "access.format", std::move(detail));
}

// Takes "{…}" off `rest`; empty when it does not begin with a brace. The braces of a time may hold
// "%{…}" no more.
Result<std::string> parse_braces(std::string_view& rest) {
  if (!rest.starts_with('{')) return std::string();
  const auto end = rest.find('}');
  if (end == std::string_view::npos) return wrong("a '{' without its '}'");
  if (end == 1) return wrong("nothing stands in '{}'");
  std::string argument(rest.substr(1, end - 1));
  rest.remove_prefix(end + 1);
  return argument;
}

Result<AccessFormatPart> make_part(char symbol, std::string argument) {
  const std::string quoted = std::string("'%") + symbol + "'";
  const auto row = std::ranges::find(kSpecifiers, symbol, &FormatSpecifier::letter);
  if (row == kSpecifiers.end()) return wrong(quoted + " is none of PHP-FPM's letters");
  if (row->braces == BraceArgument::kNone && !argument.empty()) return wrong(quoted + " takes nothing in braces");
  if (row->braces == BraceArgument::kName && argument.empty()) return wrong(quoted + " needs a name in braces");
  if (row->braces == BraceArgument::kTime && argument.empty()) argument = kTimeFormat;
  if (row->braces == BraceArgument::kOneOf) {
    if (argument.empty() && symbol == 'x') return wrong("'%x' needs a name in braces");
    if (argument.empty()) argument = row->options.substr(1, row->options.find(' ', 1) - 1);
    if (row->options.find(" " + argument + " ") == std::string_view::npos)
      return wrong(quoted + " does not know {" + argument + "}");
  }
  if (symbol == 'e' && std::ranges::count(kSecrets, argument) != 0) return wrong(argument + " is a secret");
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
    if (format.empty()) return wrong("a '%' at the end");
    const char symbol = format.front();
    format.remove_prefix(1);
    if (symbol == '%') {
      if (!argument->empty()) return wrong("'%%' takes nothing in braces");
      append_text("%");
      continue;
    }
    FRESHET_TRY(part, make_part(symbol, std::move(*argument)));
    parts.push_back(std::move(*part));
  }
  return parts;
}

}  // namespace freshet
