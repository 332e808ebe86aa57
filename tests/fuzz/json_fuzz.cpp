// libFuzzer: no bytes crash the parser, and a document that it accepts survives a round trip
// through the writer.
#include <cstdint>
#include <string>

#include "core/base/json.h"
#include "core/base/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace {

using freshet::fuzz::require;
using freshet::json::Document;
using freshet::json::Value;
using freshet::json::Writer;

std::string written(const Document& document) {
  std::string out;
  Writer(out).value(document.root());
  return out;
}

// Calls every typed reader on every member: errors are fine, crashes are not.
void read_members(Value object) {
  for (const auto& [name, value] : object.members()) {
    static_cast<void>(freshet::json::required_id<freshet::ItemId>(object, name));
    static_cast<void>(freshet::json::optional_time(object, name));
    static_cast<void>(freshet::json::required_integer(object, name, 0, 100));
    static_cast<void>(freshet::json::optional_strings(object, name, 8, 64));
    require(!object[name].is_missing());
    if (value.is_string()) require(freshet::utf8::is_valid(value.text()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(bytes), size);
  Document first;
  if (!first.parse(text)) return 0;
  read_members(first.root());
  const std::string once = written(first);
  std::string again = once;
  Document second;
  require(second.parse(again).has_value());
  require(written(second) == once);
  return 0;
}
