#include <array>
#include <charconv>
#include <cmath>

#include "core/base/hex.h"
#include "core/base/json.h"
#include "core/base/utf8.h"

namespace freshet::json {
namespace {

// The escape character of each byte in a JSON string: 0 for none, 'u' for \u00XX.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> table{};
  for (std::size_t c = 0; c < 0x20; ++c) table[c] = 'u';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  table['"'] = '"';
  table['\\'] = '\\';
  return table;
}();

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

void append_escaped(std::string& out, std::string_view text) {
  std::size_t run_begin = 0;  // start of the pending run of unescaped bytes
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const char escape = kEscapes[byte];
    if (escape == 0) continue;
    out.append(text, run_begin, at - run_begin).push_back('\\');
    out.push_back(escape);
    if (escape == 'u') append_hex(out.append("00"), byte);
    run_begin = at + 1;
  }
  out.append(text, run_begin);
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8::decode(text, at).size;
    result.append(size == 0 ? kReplacementCharacter : text.substr(at, size));
    at += size == 0 ? 1 : size;
  }
  return result;
}

template <class Number>
void append_number(std::string& out, Number value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), end);
}

}  // namespace

void Writer::write_separator() {
  if (needs_comma_) out_.push_back(',');
  needs_comma_ = true;
}

Writer& Writer::begin_object() {
  write_separator();
  out_.push_back('{');
  needs_comma_ = false;
  return *this;
}

Writer& Writer::end_object() {
  out_.push_back('}');
  needs_comma_ = true;
  return *this;
}

Writer& Writer::begin_array() {
  write_separator();
  out_.push_back('[');
  needs_comma_ = false;
  return *this;
}

Writer& Writer::end_array() {
  out_.push_back(']');
  needs_comma_ = true;
  return *this;
}

Writer& Writer::key(std::string_view name) {
  string(name);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

Writer& Writer::string(std::string_view value) {
  write_separator();
  out_.push_back('"');
  if (utf8::is_valid(value)) {
    append_escaped(out_, value);
  } else {
    append_escaped(out_, replace_invalid_utf8(value));
  }
  out_.push_back('"');
  return *this;
}

Writer& Writer::integer(std::int64_t value) {
  write_separator();
  append_number(out_, value);
  return *this;
}

Writer& Writer::unsigned_integer(std::uint64_t value) {
  write_separator();
  append_number(out_, value);
  return *this;
}

Writer& Writer::number(double value) {
  write_separator();
  append_number(out_, value);
  // "-0" would parse as the integer 0 and lose its sign.
  if (value == 0 && std::signbit(value)) out_.append(".0");
  return *this;
}

Writer& Writer::boolean(bool value) { return raw(value ? "true" : "false"); }

Writer& Writer::null() { return raw("null"); }

Writer& Writer::raw(std::string_view json) {
  write_separator();
  out_.append(json);
  return *this;
}

Writer& Writer::value(Value value) {
  switch (value.type()) {
    case Type::kMissing:
    case Type::kNull:
      return null();
    case Type::kBool:
      return boolean(value.boolean());
    case Type::kInteger:
      return integer(*value.integer());
    case Type::kUnsigned:
      return unsigned_integer(*value.unsigned_integer());
    case Type::kDouble:
      return number(*value.number());
    case Type::kString:
      return string(value.text());
    case Type::kArray:
      begin_array();
      for (const Value element : value.elements()) this->value(element);
      return end_array();
    case Type::kObject:
      begin_object();
      for (const auto& [name, member] : value.members()) key(name).value(member);
      return end_object();
  }
  return *this;
}

}  // namespace freshet::json
