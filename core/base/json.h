// JSON parser and writer. Only json.cpp includes RapidJSON.
//
// Parsing is one SAX pass into a flat array of nodes, with strings unescaped in place, so a small
// body allocates nothing once the array is reused. Rejected inputs (each has a test): too large or
// too deep, NUL bytes, a BOM, trailing bytes, strings that are not UTF-8, and numbers that are not
// finite. An escape of half a surrogate pair, which JavaScript writes for half an emoji, is read as
// U+FFFD.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::json {

enum class Type : std::uint8_t {
  kMissing,
  kNull,
  kBool,
  kInteger,
  kUnsigned,
  kDouble,
  kString,
  kArray,
  kObject
};

struct Node {
  Type type = Type::kMissing;
  bool boolean = false;
  std::uint32_t end = 0;  // containers: one past the index of this value's last node
  union {
    std::int64_t integer = 0;
    std::uint64_t unsigned_integer;
    double real;
  };
  std::string_view text;  // kString: points into the document's text
};

class Value;

struct Limits {
  std::size_t max_depth = 16;    // nested containers
  std::size_t max_nodes = 4096;  // values plus member names
};

// A parsed text. Its Values are views, valid while both the Document and the `text` passed to
// parse() live.
class Document {
 public:
  // Parses the JSON text and unescapes its strings in place, so `text` changes and must outlive
  // this object. An escaped \u0000 is allowed. A number out of a double's range (1e400, 1e-400) is
  // an error. O(bytes); a reused Document does not allocate for texts with few values. Error:
  // kInvalid "bad_json", with the byte offset in the detail; root() is then missing.
  Result<void> parse(std::string& text, const Limits& limits = {});
  Value root() const;

 private:
  std::vector<Node> nodes_;
};

// A view of a value in a Document, or "missing".
class Value {
 public:
  Value() = default;
  Value(const Node* nodes, std::uint32_t index) : nodes_(nodes), index_(index) {}
  Type type() const { return nodes_ ? nodes_[index_].type : Type::kMissing; }
  bool is_missing() const { return type() == Type::kMissing; }
  bool is_object() const { return type() == Type::kObject; }
  bool is_array() const { return type() == Type::kArray; }
  bool is_string() const { return type() == Type::kString; }
  // The member `key` of an object, or a missing value. If a name is repeated, the last one wins, as
  // in JavaScript. O(members).
  Value operator[](std::string_view key) const;
  std::string_view text() const { return nodes_[index_].text; }  // REQUIRES: is_string()
  bool boolean() const { return nodes_[index_].boolean; }        // REQUIRES: type() == kBool
  std::optional<std::int64_t> integer() const;  // integral and in range; 1.0 and 1e3 are not integers
  std::optional<std::uint64_t> unsigned_integer() const;            // the same, for 0 and above
  std::optional<double> number() const;                             // any number
  std::vector<Value> elements() const;                              // empty unless an array
  std::vector<std::pair<std::string_view, Value>> members() const;  // empty unless an object

 private:
  const Node* nodes_ = nullptr;
  std::uint32_t index_ = 0;
};

// The root, which must be an object. Error: kInvalid "bad_body".
Result<Value> root_object(const Document& document);

// --- Typed members. Errors are those that API.md documents: kInvalid, naming the member.

// Text of an id given as a JSON string or integer (−2^63..2^64−1): 12 and "12" are the same id.
// Error: "bad_id".
Result<std::string> id_text(Value value, std::string_view member);

// An empty id if absent, null or unset (is_unset_id).
template <class IdType>
Result<IdType> optional_id(Value object, std::string_view member) {
  const Value value = object[member];
  if (value.is_missing() || value.type() == Type::kNull) return IdType();
  FRESHET_TRY(text, id_text(value, member));
  if (is_unset_id<IdType>(*text)) return IdType();
  return IdType::parse(*text, member);
}
template <class IdType>
Result<IdType> required_id(Value object, std::string_view member) {
  FRESHET_TRY(id, optional_id<IdType>(object, member));
  if (id->empty()) return fail(ErrorCode::kInvalid, "bad_id", std::string(member), "is missing");
  return id;
}
// A date (parse_date) or integer Unix seconds; nullopt if absent, null, "" or a zero date. Error:
// "bad_time".
Result<std::optional<UnixSeconds>> optional_time(Value object, std::string_view member);
// An integer in low..high. Error: "bad_number".
Result<std::int64_t> required_integer(Value object, std::string_view member, std::int64_t low,
                                      std::int64_t high);
// A number, rounded to an integer in low..high. Error: "bad_number".
Result<std::int64_t> required_rounded(Value object, std::string_view member, std::int64_t low,
                                      std::int64_t high);
// An integer; nullopt if absent or null.
Result<std::optional<std::int64_t>> optional_integer(Value object, std::string_view member, std::int64_t low,
                                                     std::int64_t high);
// `fallback` if absent or null. Error: "bad_boolean".
Result<bool> optional_boolean(Value object, std::string_view member, bool fallback);
// A string of at most max_bytes. Error: "bad_string".
Result<std::string> required_string(Value object, std::string_view member, std::size_t max_bytes);
// The same; nullopt if absent or null.
Result<std::optional<std::string>> optional_string(Value object, std::string_view member,
                                                   std::size_t max_bytes);

// At most max_count strings of at most max_bytes each; empty if absent or null. Errors: "bad_list",
// "bad_string".
Result<std::vector<std::string>> optional_strings(Value object, std::string_view member,
                                                  std::size_t max_count, std::size_t max_bytes);

// --- Writing. Appends to a string. Numbers take the shortest form that parses back to the same
// value. Invalid UTF-8 becomes U+FFFD, so the output is always valid JSON.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  Writer& begin_object();
  Writer& end_object();
  Writer& begin_array();
  Writer& end_array();
  Writer& key(std::string_view name);
  Writer& string(std::string_view value);
  Writer& integer(std::int64_t value);
  Writer& unsigned_integer(std::uint64_t value);
  Writer& number(double value);  // REQUIRES: finite
  Writer& boolean(bool value);
  Writer& null();
  Writer& raw(std::string_view json);  // appends one JSON value, or an object's next members, unchanged
  Writer& value(Value value);          // serializes a parsed value; missing becomes null

 private:
  void write_separator();
  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace freshet::json
