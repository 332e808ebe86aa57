// JSON as the service reads and writes it. RapidJSON lives in json.cpp only; no other file includes
// it.
//
// Reading is one SAX pass into a flat array of nodes, strings unescaped in place, so a small body
// costs no allocation beyond the reused node array. Guards (each held by a test): size and depth
// caps, NUL bytes, BOM, bytes behind the text, lone surrogates and any other invalid UTF-8 after
// unescaping, numbers that are not finite.
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
  std::uint32_t end = 0;  // index one past this value's last node (containers)
  union {
    std::int64_t integer = 0;
    std::uint64_t unsigned_integer;
    double real;
  };
  std::string_view text;  // kString, into the document's text
};

class Value;

struct Limits {
  std::size_t max_depth = 16;    // containers around one value
  std::size_t max_nodes = 4096;  // values and member names together
};

// A parsed text. Values are views: valid while the document and `text` given to parse() live.
class Document {
 public:
  // Parses the one JSON text in `text` and unescapes its strings in place, so `text` is changed and
  // must outlive this. Errors: kInvalid, "bad_json", detail with the byte's offset; root() is
  // missing then. An escaped \u0000 is a character like others. A number that a double cannot hold
  // (1e400, 1e-400) is an error. O(bytes); no allocation for texts of few values once the document
  // has been used.
  Result<void> parse(std::string& text, const Limits& limits = {});
  Value root() const;

 private:
  std::vector<Node> nodes_;
};

// A value inside a Document, or "missing". Never owns.
class Value {
 public:
  Value() = default;
  Value(const Node* nodes, std::uint32_t index) : nodes_(nodes), index_(index) {}
  Type type() const { return nodes_ ? nodes_[index_].type : Type::kMissing; }
  bool is_missing() const { return type() == Type::kMissing; }
  bool is_object() const { return type() == Type::kObject; }
  bool is_array() const { return type() == Type::kArray; }
  bool is_string() const { return type() == Type::kString; }
  // The member of an object, or a missing value. The last of duplicates wins, as in JavaScript.
  // O(members).
  Value operator[](std::string_view key) const;
  std::string_view text() const { return nodes_[index_].text; }  // REQUIRES: is_string()
  bool boolean() const { return nodes_[index_].boolean; }        // REQUIRES: kind() == kBool
  std::optional<std::int64_t> integer() const;  // integral numbers that fit; 1.0 and 1e3 do not count
  std::optional<std::uint64_t> unsigned_integer() const;            // the same, 0 and above
  std::optional<double> number() const;                             // any number
  std::vector<Value> elements() const;                              // of an array, else empty
  std::vector<std::pair<std::string_view, Value>> members() const;  // of an object, else empty

 private:
  const Node* nodes_ = nullptr;
  std::uint32_t index_ = 0;
};

// The root, which must be an object. Error: kInvalid, "bad_body".
Result<Value> root_object(const Document& document);

// --- Typed members, with the errors that API.md promises: kInvalid naming the member.

// A JSON string or integer (−2^63..2^64−1) as an id's text: 12 and "12" are the same id. "bad_id"
// when neither.
Result<std::string> id_text(Value value, std::string_view member);

template <class IdType>
Result<IdType> required_id(Value object, std::string_view member) {
  FRESHET_TRY(text, id_text(object[member], member));
  return IdType::parse(*text, member);
}
// Absent or null: an empty id.
template <class IdType>
Result<IdType> optional_id(Value object, std::string_view member) {
  const Value value = object[member];
  if (value.is_missing() || value.type() == Type::kNull) return IdType();
  return required_id<IdType>(object, member);
}
// RFC 3339 or integer unix seconds; absent or null: nullopt. "bad_time".
Result<std::optional<UnixSeconds>> optional_time(Value object, std::string_view member);
// A finite integer in low..high. "bad_number".
Result<std::int64_t> required_integer(Value object, std::string_view member, std::int64_t low,
                                      std::int64_t high);
// The same; absent or null: nullopt.
Result<std::optional<std::int64_t>> optional_integer(Value object, std::string_view member, std::int64_t low,
                                                     std::int64_t high);
// A boolean, absent or null: `fallback`. "bad_boolean".
Result<bool> optional_boolean(Value object, std::string_view member, bool fallback);
// A string of at most max_bytes. "bad_string".
Result<std::string> required_string(Value object, std::string_view member, std::size_t max_bytes);
// The same; absent or null: nullopt.
Result<std::optional<std::string>> optional_string(Value object, std::string_view member,
                                                   std::size_t max_bytes);

// At most max_count strings of at most max_bytes each; absent or null: none. "bad_list",
// "bad_string".
Result<std::vector<std::string>> optional_strings(Value object, std::string_view member,
                                                  std::size_t max_count, std::size_t max_bytes);

// --- Writing. Appends to a string; numbers in the shortest form that reads back the same, never
// rounded. Bytes that are not UTF-8 become U+FFFD, so what is written is always JSON.
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
  Writer& raw(std::string_view json);  // one JSON value, or an object's next members, as they are
  Writer& value(Value value);          // a parsed value again; missing is null

 private:
  void write_separator();
  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace freshet::json
