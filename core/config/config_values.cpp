// Conversions between TOML values and fields of Settings.
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/hex.h"
#include "core/config/config_directives.h"

namespace freshet::config {
namespace {

using Failure = tl::unexpected<std::string>;
using AssignResult = tl::expected<void, std::string>;

constexpr std::string_view kAuto = "auto";  // an optional without a value

struct Suffix {
  std::string_view text;
  std::int64_t factor;
};
// Largest first: formatting uses the first that divides the value.
constexpr std::array kTimeSuffixes{Suffix{"d", 86400000}, Suffix{"h", 3600000}, Suffix{"m", 60000},
                                   Suffix{"s", 1000}, Suffix{"ms", 1}};
constexpr std::array kByteSuffixes{Suffix{"G", 1 << 30}, Suffix{"M", 1 << 20}, Suffix{"K", 1 << 10},
                                   Suffix{"", 1}};

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      append_hex(out += "\\u00", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Parses "<digits><suffix>" into the unit of factor 1.
tl::expected<std::int64_t, std::string> parse_with_suffix(std::string_view text,
                                                          std::span<const Suffix> suffixes) {
  std::int64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  for (const Suffix& row : suffixes) {
    if (error != std::errc() || suffix != row.text) continue;
    std::int64_t product = 0;
    if (__builtin_mul_overflow(count, row.factor, &product)) return Failure("is out of range");
    return product;
  }
  std::string allowed;
  for (const Suffix& row : suffixes)
    if (!row.text.empty()) allowed += (allowed.empty() ? "" : ", ") + std::string(row.text);
  return Failure("\"" + std::string(text) + "\" is not an integer with one of the units " + allowed);
}

tl::expected<std::int64_t, std::string> to_integer(const toml::node& node, Unit unit) {
  if (const auto* integer = node.as_integer()) return integer->get();
  const auto* string = node.as_string();
  if (!string || unit == Unit::kNone) return Failure("must be an integer");
  const std::string& text = string->get();
  switch (unit) {
    case Unit::kBytes:
      return parse_with_suffix(text, kByteSuffixes);
    case Unit::kMode: {
      int mode = 0;
      const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
      if (error != std::errc() || rest != text.data() + text.size())
        return Failure("must be octal digits, such as \"0660\"");
      return mode;
    }
    case Unit::kSeconds:
    case Unit::kMilliseconds: {
      auto ms = parse_with_suffix(text, kTimeSuffixes);
      if (!ms || unit == Unit::kMilliseconds) return ms;
      if (*ms % 1000 != 0) return Failure("\"" + text + "\" is not a whole number of seconds");
      return *ms / 1000;
    }
    case Unit::kNone:
      break;
  }
  return Failure("must be an integer");
}

AssignResult check_range(const Directive& row, double value) {
  if (value >= row.range.low && value <= row.range.high) return {};
  return Failure(number_text(value) + " is outside " + number_text(row.range.low) + ".." +
                 number_text(row.range.high));
}

template <class Number>
AssignResult assign_integer(const Directive& row, const toml::node& node, Unit unit, Number& field) {
  const auto value = to_integer(node, unit);
  if (!value) return Failure(value.error());
  if (auto ok = check_range(row, static_cast<double>(*value)); !ok) return ok;
  field = static_cast<Number>(*value);
  return {};
}

// One overload per alternative of Field.
struct Assign {
  const Directive& row;
  const toml::node& node;

  AssignResult operator()(std::string* field) const {
    const auto* text = node.as_string();
    if (!text) return Failure("must be a string");
    if (text->get().find('\0') != std::string::npos) return Failure("must not contain a NUL");
    const std::string padded = "|" + std::string(row.choices) + "|";
    if (!row.choices.empty() && (text->get().find('|') != std::string::npos ||
                                 padded.find("|" + text->get() + "|") == std::string::npos))
      return Failure("\"" + text->get() + "\" is not one of " + std::string(row.choices));
    *field = text->get();
    return {};
  }
  AssignResult operator()(bool* field) const {
    const auto* value = node.as_boolean();
    if (!value) return Failure("must be true or false");
    *field = value->get();
    return {};
  }
  AssignResult operator()(double* field) const {
    double value = 0;
    if (const auto* real = node.as_floating_point()) {
      value = real->get();
    } else if (node.is_integer() || row.unit != Unit::kNone) {
      const auto integer = to_integer(node, row.unit);
      if (!integer) return Failure(integer.error());
      value = static_cast<double>(*integer);
    } else {
      return Failure("must be a number");
    }
    if (!std::isfinite(value)) return Failure("must be finite");
    if (auto ok = check_range(row, value); !ok) return ok;
    *field = value;
    return {};
  }
  AssignResult operator()(seconds* field) const {
    std::int64_t count = 0;
    if (auto ok = assign_integer(row, node, Unit::kSeconds, count); !ok) return ok;
    *field = seconds(count);
    return {};
  }
  AssignResult operator()(milliseconds* field) const {
    std::int64_t count = 0;
    if (auto ok = assign_integer(row, node, Unit::kMilliseconds, count); !ok) return ok;
    *field = milliseconds(count);
    return {};
  }
  AssignResult operator()(std::vector<std::string>* field) const {
    const auto* array = node.as_array();
    if (!array) return Failure("must be an array of strings");
    std::vector<std::string> values;
    for (const auto& element : *array) {
      const auto* text = element.as_string();
      if (!text) return Failure("must be an array of strings");
      values.push_back(text->get());
    }
    *field = std::move(values);
    return {};
  }
  AssignResult operator()(std::map<std::string, std::string>* field) const {
    const auto* table = node.as_table();
    if (!table) return Failure("must be a table of strings");
    std::map<std::string, std::string> values;
    for (const auto& [key, value] : *table) {
      const auto* text = value.as_string();
      if (!text) return Failure("must be a table of strings");
      values.emplace(key.str(), text->get());
    }
    *field = std::move(values);
    return {};
  }
  template <class Value>
  AssignResult operator()(std::optional<Value>* field) const {
    if (const auto* text = node.as_string(); text && text->get() == kAuto) {
      field->reset();
      return {};
    }
    Value value{};
    if (auto ok = (*this)(&value); !ok) return Failure(ok.error() + " or \"auto\"");
    *field = value;
    return {};
  }
  template <class Integer>
  AssignResult operator()(Integer* field) const {
    return assign_integer(row, node, row.unit, *field);
  }
};

// Calls `add` with each element of a list separated by commas, without blanks around it.
template <class Add>
void for_each_element(std::string_view text, Add add) {
  while (!text.empty()) {
    std::string_view element = text.substr(0, text.find(','));
    text.remove_prefix(std::min(element.size() + 1, text.size()));
    element.remove_prefix(std::min(element.find_first_not_of(' '), element.size()));
    add(element.substr(0, element.find_last_not_of(' ') + 1));
  }
}

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Assigns the text of a variable. One overload per kind of field; each builds the TOML value that
// Assign accepts, or one that it rejects with the right error.
struct AssignText {
  const Directive& row;
  std::string_view text;

  template <class Field>
  AssignResult assign_value(Field* field, const toml::node& node) const {
    return Assign{row, node}(field);
  }
  AssignResult operator()(std::string* field) const {
    return assign_value(field, toml::value<std::string>(std::string(text)));
  }
  AssignResult operator()(bool* field) const {
    if (text != "true" && text != "false") return Failure("must be true or false");
    return assign_value(field, toml::value<bool>(text == "true"));
  }
  AssignResult operator()(std::vector<std::string>* field) const {
    toml::array values;
    for_each_element(text, [&](std::string_view element) { values.push_back(std::string(element)); });
    return assign_value(field, values);
  }
  AssignResult operator()(std::map<std::string, std::string>* field) const {
    toml::table values;
    bool valid = true;
    for_each_element(text, [&](std::string_view element) {
      const std::size_t equals = element.find('=');
      valid = valid && equals != std::string_view::npos && equals > 0;
      if (valid) values.insert_or_assign(element.substr(0, equals), std::string(element.substr(equals + 1)));
    });
    if (!valid) return Failure("must be NAME=VALUE, separated by commas");
    return assign_value(field, values);
  }
  template <class Value>
  AssignResult operator()(std::optional<Value>* field) const {
    if (text == kAuto) {
      field->reset();
      return {};
    }
    Value value{};
    if (auto ok = (*this)(&value); !ok) return Failure(ok.error() + " or \"auto\"");
    *field = value;
    return {};
  }
  template <class Number>
  AssignResult operator()(Number* field) const {
    if (row.unit == Unit::kMode)  // "660" and "0660" are octal
      return assign_value(field,
                          toml::value<std::string>(std::string(text.substr(text.starts_with("0o") ? 2 : 0))));
    if (const auto integer = whole_number<std::int64_t>(text))
      return assign_value(field, toml::value<std::int64_t>(*integer));
    if constexpr (std::is_same_v<Number, double>)
      if (const auto real = whole_number<double>(text))
        return assign_value(field, toml::value<double>(*real));
    return assign_value(field, toml::value<std::string>(std::string(text)));
  }
};

std::string duration_text(std::int64_t ms) {
  for (const Suffix& row : kTimeSuffixes)
    if (ms % row.factor == 0 && (ms != 0 || row.factor == 1000))
      return quote(std::to_string(ms / row.factor) + std::string(row.text));
  return quote(std::to_string(ms) + "ms");
}

std::string mode_text(std::int64_t mode) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), mode, 8).ptr;
  return "0o" + std::string(digits.data(), end);
}

struct Format {
  const Directive& row;

  std::string operator()(const std::string* field) const { return quote(*field); }
  std::string operator()(const bool* field) const { return *field ? "true" : "false"; }
  std::string operator()(const double* field) const {
    const auto whole = static_cast<std::int64_t>(*field);
    if (row.unit == Unit::kMilliseconds && static_cast<double>(whole) == *field) return duration_text(whole);
    return number_text(*field);
  }
  std::string operator()(const seconds* field) const { return duration_text(field->count() * 1000); }
  std::string operator()(const milliseconds* field) const { return duration_text(field->count()); }
  std::string operator()(const std::vector<std::string>* field) const {
    std::string out;
    for (const std::string& value : *field) out += (out.empty() ? "" : ", ") + quote(value);
    return "[" + out + "]";
  }
  std::string operator()(const std::map<std::string, std::string>* field) const {
    std::string out;
    for (const auto& [key, value] : *field)
      out += (out.empty() ? "" : ", ") + quote(key) + " = " + quote(value);
    return out.empty() ? "{}" : "{ " + out + " }";
  }
  template <class Value>
  std::string operator()(const std::optional<Value>* field) const {
    return *field ? (*this)(&**field) : quote(kAuto);
  }
  template <class Integer>
  std::string operator()(const Integer* field) const {
    if (row.unit == Unit::kMode) return mode_text(static_cast<std::int64_t>(*field));
    if (row.unit == Unit::kMilliseconds) return duration_text(static_cast<std::int64_t>(*field));
    return std::to_string(*field);
  }
};

}  // namespace

tl::expected<void, std::string> assign(const Directive& directive, const toml::node& node,
                                       Settings& settings) {
  return std::visit(Assign{directive, node}, directive.field(settings));
}

tl::expected<void, std::string> assign_text(const Directive& directive, std::string_view text,
                                            Settings& settings) {
  return std::visit(AssignText{directive, text}, directive.field(settings));
}

std::string format(const Directive& directive, const Settings& settings) {
  // field() returns a mutable pointer; nothing is written through it here.
  return std::visit(
      [&](auto* field) {
        return Format{directive}(static_cast<const std::remove_pointer_t<decltype(field)>*>(field));
      },
      directive.field(const_cast<Settings&>(settings)));
}

}  // namespace freshet::config
