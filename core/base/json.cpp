#include "core/base/json.h"

#include <rapidjson/allocators.h>
#include <rapidjson/reader.h>

#include <array>
#include <charconv>
#include <limits>

#include "core/base/utf8.h"

namespace freshet::json {
namespace {

using rapidjson::SizeType;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Numbers are passed as text, because RapidJSON's default conversion can be off by one unit in the
// last place; std::from_chars is exact and fast.
constexpr unsigned kFlags =
    rapidjson::kParseInsituFlag | rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;

constexpr std::size_t kInitialCapacity = 24;  // enough for the bodies that pages send

tl::unexpected<Error> bad_json(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_json", {}, std::move(detail));
}

// The UTF-16 code unit that is escaped at text[at], such as \ud83d; 0 if there is none.
unsigned escaped_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return 0;
  unsigned unit = 0;
  const char* const end = text.data() + at + 6;
  const auto read = std::from_chars(text.data() + at + 2, end, unit, 16);
  return read.ec == std::errc() && read.ptr == end ? unit : 0;
}
bool is_high_surrogate(unsigned unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
bool is_low_surrogate(unsigned unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

// Replaces escapes of lone surrogates with that of U+FFFD.
void replace_lone_surrogates(std::string& text) {
  for (std::size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const unsigned unit = escaped_unit(text, at);
    if (is_high_surrogate(unit) && is_low_surrogate(escaped_unit(text, at + 6))) {
      at += 12;
    } else {
      if (is_high_surrogate(unit) || is_low_surrogate(unit)) text.replace(at + 2, 4, "fffd");
      at += 2;  // the escaped character may be a backslash
    }
  }
}

// Turns RapidJSON's SAX events into the flat array. An event returns false to stop parsing, with
// error_ set.
class Builder {
 public:
  Builder(std::vector<Node>& nodes, const Limits& limits) : nodes_(nodes), limits_(limits) {}

  // RapidJSON requires these names.
  // NOLINTBEGIN(readability-identifier-naming)
  bool Null() { return add(Type::kNull) != nullptr; }
  bool Bool(bool value) {
    Node* node = add(Type::kBool);
    if (node) node->boolean = value;
    return node != nullptr;
  }
  bool RawNumber(const char* text, SizeType size, bool /*copy*/) { return number({text, size}); }
  bool String(const char* text, SizeType size, bool /*copy*/) { return string({text, size}); }
  bool Key(const char* text, SizeType size, bool /*copy*/) { return string({text, size}); }
  bool StartObject() { return open(Type::kObject); }
  bool StartArray() { return open(Type::kArray); }
  bool EndObject(SizeType) { return close(); }
  bool EndArray(SizeType) { return close(); }

  // Never called, since kParseNumbersAsStringsFlag sends every number to RawNumber, but RapidJSON
  // needs them to compile.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  // NOLINTEND(readability-identifier-naming)

  std::string_view error() const { return error_; }

 private:
  bool reject(std::string_view error) {
    error_ = error;
    return false;
  }

  Node* add(Type type) {
    if (nodes_.size() >= limits_.max_nodes) {
      reject("too many values");
      return nullptr;
    }
    Node& node = nodes_.emplace_back();
    node.type = type;
    node.end = static_cast<std::uint32_t>(nodes_.size());
    return &node;
  }

  bool string(std::string_view text) {
    if (!utf8::is_valid(text)) return reject("a string is not valid UTF-8");
    Node* node = add(Type::kString);
    if (node) node->text = text;
    return node != nullptr;
  }

  bool number(std::string_view text) {
    Node* node = add(Type::kDouble);
    if (!node) return false;
    const char* const end = text.data() + text.size();
    if (text.find_first_of(".eE") == std::string_view::npos) {
      if (std::from_chars(text.data(), end, node->integer).ec == std::errc()) {
        node->type = Type::kInteger;
        return true;
      }
      if (text.front() != '-' &&
          std::from_chars(text.data(), end, node->unsigned_integer).ec == std::errc()) {
        node->type = Type::kUnsigned;
        return true;
      }
    }
    // Out of range means too large for a double, or so small that it would silently become 0.
    if (std::from_chars(text.data(), end, node->real).ec != std::errc()) {
      return reject("a number is out of range");
    }
    return true;
  }

  // While a container is open, its `end` holds its parent's index, which saves a stack.
  bool open(Type type) {
    if (depth_ >= limits_.max_depth) return reject("nested too deeply");
    Node* node = add(type);
    if (!node) return false;
    node->end = innermost_;
    innermost_ = static_cast<std::uint32_t>(nodes_.size() - 1);
    ++depth_;
    return true;
  }

  bool close() {
    Node& node = nodes_[innermost_];
    innermost_ = node.end;
    node.end = static_cast<std::uint32_t>(nodes_.size());
    --depth_;
    return true;
  }

  std::vector<Node>& nodes_;
  const Limits& limits_;
  std::uint32_t innermost_ = 0;  // the innermost open container; meaningless while depth_ is 0
  std::size_t depth_ = 0;
  std::string_view error_;
};

}  // namespace

Result<void> Document::parse(std::string& text, const Limits& limits) {
  nodes_.clear();
  nodes_.reserve(kInitialCapacity);
  if (text.starts_with(kByteOrderMark)) return bad_json("begins with a byte order mark");
  // RapidJSON would treat a NUL as the end of the text.
  if (text.find('\0') != std::string::npos) return bad_json("contains a NUL byte");
  replace_lone_surrogates(text);

  // RapidJSON's own stack: one byte per level and one count per container. Grows on the heap if
  // this is too small.
  alignas(std::max_align_t) std::array<char, 2048> memory;
  rapidjson::MemoryPoolAllocator<> allocator(memory.data(), memory.size());
  rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::MemoryPoolAllocator<>> reader(
      &allocator);
  rapidjson::InsituStringStream stream(text.data());
  Builder builder(nodes_, limits);
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (result.IsError()) {
    nodes_.clear();
    std::string detail(builder.error().empty() ? "invalid JSON" : builder.error());
    return bad_json(detail + " at byte " + std::to_string(result.Offset()));
  }
  return {};
}

Value Document::root() const { return nodes_.empty() ? Value() : Value(nodes_.data(), 0); }

Value Value::operator[](std::string_view key) const {
  if (!is_object()) return {};
  Value found;
  for (std::uint32_t name = index_ + 1; name < nodes_[index_].end; name = nodes_[name + 1].end) {
    if (nodes_[name].text == key) found = Value(nodes_, name + 1);
  }
  return found;
}

std::optional<std::int64_t> Value::integer() const {
  if (type() != Type::kInteger) return std::nullopt;
  return nodes_[index_].integer;
}

std::optional<std::uint64_t> Value::unsigned_integer() const {
  if (type() == Type::kUnsigned) return nodes_[index_].unsigned_integer;
  if (type() == Type::kInteger && nodes_[index_].integer >= 0) {
    return static_cast<std::uint64_t>(nodes_[index_].integer);
  }
  return std::nullopt;
}

std::optional<double> Value::number() const {
  switch (type()) {
    case Type::kInteger:
      return static_cast<double>(nodes_[index_].integer);
    case Type::kUnsigned:
      return static_cast<double>(nodes_[index_].unsigned_integer);
    case Type::kDouble:
      return nodes_[index_].real;
    default:
      return std::nullopt;
  }
}

std::vector<Value> Value::elements() const {
  std::vector<Value> result;
  if (!is_array()) return result;
  for (std::uint32_t at = index_ + 1; at < nodes_[index_].end; at = nodes_[at].end)
    result.emplace_back(nodes_, at);
  return result;
}

std::vector<std::pair<std::string_view, Value>> Value::members() const {
  std::vector<std::pair<std::string_view, Value>> result;
  if (!is_object()) return result;
  for (std::uint32_t name = index_ + 1; name < nodes_[index_].end; name = nodes_[name + 1].end) {
    result.emplace_back(nodes_[name].text, Value(nodes_, name + 1));
  }
  return result;
}

}  // namespace freshet::json
