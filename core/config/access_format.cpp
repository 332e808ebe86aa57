#include "core/config/access_format.h"

#include <algorithm>
#include <array>

namespace freshet {
namespace {

enum class Braces { kNone, kOneOf, kName, kTime };

struct Letter {
  char letter;
  Braces braces;
  std::string_view options;  // of kOneOf, each between spaces; without braces the first holds
};
constexpr std::array kLetters{
    Letter{'C', Braces::kOneOf, " total user system "},
    Letter{'d', Braces::kOneOf, " seconds milliseconds milli microseconds micro "},
    Letter{'e', Braces::kName, ""},
    Letter{'f', Braces::kNone, ""},
    Letter{'l', Braces::kNone, ""},
    Letter{'m', Braces::kNone, ""},
    Letter{'M', Braces::kOneOf, " bytes kilobytes kilo megabytes mega "},
    Letter{'n', Braces::kNone, ""},
    Letter{'o', Braces::kName, ""},
    Letter{'p', Braces::kNone, ""},
    Letter{'P', Braces::kNone, ""},
    Letter{'q', Braces::kNone, ""},
    Letter{'Q', Braces::kNone, ""},
    Letter{'r', Braces::kNone, ""},
    Letter{'R', Braces::kNone, ""},
    Letter{'s', Braces::kNone, ""},
    Letter{'t', Braces::kTime, ""},
    Letter{'T', Braces::kTime, ""},
    Letter{'u', Braces::kOneOf, " hidden id "},
    Letter{'x', Braces::kOneOf, " redis_ms round_trips route request_id zone "},
};
constexpr std::string_view kTimeFormat = "%d/%b/%Y:%H:%M:%S %z";
// Secrets are not logged, whatever a format asks for.
constexpr std::array<std::string_view, 2> kSecrets{"HTTP_COOKIE", "HTTP_AUTHORIZATION"};

tl::unexpected<Error> wrong(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_access_format", "access.format", std::move(detail));
}

// Takes "{…}" off `rest`; empty when it does not begin with a brace. The braces of a time may hold
// "%{…}" no more.
Result<std::string> take_braces(std::string_view& rest) {
  if (!rest.starts_with('{')) return std::string();
  const auto end = rest.find('}');
  if (end == std::string_view::npos) return wrong("a '{' without its '}'");
  if (end == 1) return wrong("nothing stands in '{}'");
  std::string inside(rest.substr(1, end - 1));
  rest.remove_prefix(end + 1);
  return inside;
}

Result<AccessPiece> piece_of(char symbol, std::string inside) {
  const std::string shown = std::string("'%") + symbol + "'";
  const auto row = std::ranges::find(kLetters, symbol, &Letter::letter);
  if (row == kLetters.end()) return wrong(shown + " is none of PHP-FPM's letters");
  if (row->braces == Braces::kNone && !inside.empty()) return wrong(shown + " takes nothing in braces");
  if (row->braces == Braces::kName && inside.empty()) return wrong(shown + " needs a name in braces");
  if (row->braces == Braces::kTime && inside.empty()) inside = kTimeFormat;
  if (row->braces == Braces::kOneOf) {
    if (inside.empty() && symbol == 'x') return wrong("'%x' needs a name in braces");
    if (inside.empty()) inside = row->options.substr(1, row->options.find(' ', 1) - 1);
    if (row->options.find(" " + inside + " ") == std::string_view::npos)
      return wrong(shown + " does not know {" + inside + "}");
  }
  if (symbol == 'e' && std::ranges::count(kSecrets, inside) != 0) return wrong(inside + " is a secret");
  return AccessPiece{symbol, std::move(inside)};
}

}  // namespace

Result<std::vector<AccessPiece>> parse_access_format(std::string_view format) {
  std::vector<AccessPiece> pieces;
  const auto append_text = [&](std::string_view text) {
    if (text.empty()) return;
    if (pieces.empty() || pieces.back().letter != 0) pieces.emplace_back();
    pieces.back().text.append(text);
  };
  while (!format.empty()) {
    const auto percent = std::min(format.find('%'), format.size());
    append_text(format.substr(0, percent));
    format.remove_prefix(percent);
    if (format.empty()) break;
    format.remove_prefix(1);
    FRESHET_TRY(inside, take_braces(format));
    if (format.empty()) return wrong("a '%' at the end");
    const char symbol = format.front();
    format.remove_prefix(1);
    if (symbol == '%') {
      if (!inside->empty()) return wrong("'%%' takes nothing in braces");
      append_text("%");
      continue;
    }
    FRESHET_TRY(piece, piece_of(symbol, std::move(*inside)));
    pieces.push_back(std::move(*piece));
  }
  return pieces;
}

}  // namespace freshet
