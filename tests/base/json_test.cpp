#include "core/base/json.h"
#include "core/base/utf8.h"
#include "tests/support/error_of.h"

#include <rapidcheck.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

using namespace freshet;
using namespace freshet::test;
using json::Document;
using json::Type;
using json::Value;
using json::Writer;

namespace {

// A document together with the text that it points into.
struct Parsed {
  std::string text;
  Document document;
  Result<void> result;

  explicit Parsed(std::string from, const json::Limits& limits = {})
      : text(std::move(from)), result(document.parse(text, limits)) {}
  Parsed(const Parsed&) = delete;
  Parsed& operator=(const Parsed&) = delete;
  Value root() const { return document.root(); }
};

void check_rejected(const std::string& text) {
  INFO(text.substr(0, 80));
  const Parsed parsed(text);
  REQUIRE_FALSE(parsed.result);
  CHECK(error_of(parsed.result).code == ErrorCode::kInvalid);
  CHECK(error_of(parsed.result).reason == "bad_json");
  CHECK(parsed.root().is_missing());
}

std::string serialize(Value value) {
  std::string out;
  Writer(out).value(value);
  return out;
}

std::string reserialize(const std::string& text) {
  INFO(text);
  const Parsed parsed(text);
  REQUIRE(parsed.result);
  return serialize(parsed.root());
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("every type of value is parsed", "[json]") {
  const Parsed parsed(
      R"( {"s":"a\u00e9\n","i":-3,"d":1.5,"t":true,"n":null,"a":[1,[2],{"x":3}],"o":{"p":{}}} )");
  REQUIRE(parsed.result);
  const Value root = parsed.root();
  CHECK(root.is_object());
  CHECK(root["s"].text() == "aé\n");
  CHECK(root["i"].integer() == -3);
  CHECK(root["d"].number() == 1.5);
  CHECK(root["t"].boolean());
  CHECK(root["n"].type() == Type::kNull);
  REQUIRE(root["a"].elements().size() == 3);
  CHECK(root["a"].elements()[1].elements()[0].integer() == 2);
  CHECK(root["a"].elements()[2]["x"].integer() == 3);
  CHECK(root["o"]["p"].is_object());
  CHECK(root.members().size() == 7);
  CHECK(root.members()[6].first == "o");
}

TEST_CASE("absent members and wrong types give missing values", "[json]") {
  const Parsed parsed(R"({"a":[1],"s":"x"})");
  CHECK(parsed.root()["b"].is_missing());
  CHECK(parsed.root()["b"]["c"].is_missing());
  CHECK(parsed.root()["a"]["c"].is_missing());
  CHECK(parsed.root()["s"]["c"].is_missing());
  CHECK(parsed.root()["s"].elements().empty());
  CHECK(parsed.root()["a"].members().empty());
  CHECK(Document().root().is_missing());
}

TEST_CASE("a name inside a nested value is not a member of the outer object", "[json]") {
  const Parsed parsed(R"({"a":{"id":"inner"},"b":["id","id"],"c":"id"})");
  CHECK(parsed.root()["id"].is_missing());
}

TEST_CASE("the last of duplicate members wins", "[json]") {
  CHECK(Parsed(R"({"a":1,"a":[2,3],"a":4})").root()["a"].integer() == 4);
}

TEST_CASE("a NUL byte anywhere is rejected", "[json]") {
  check_rejected(std::string("{\"articleId\":\"a\"}\0", 18));
  check_rejected(std::string("{\"articleId\":\"a\"}\0{}", 20));
  check_rejected(std::string("\0{}", 3));
  check_rejected(std::string("[\"a\0b\"]", 7));
  check_rejected(std::string("[1\0]", 4));
}

TEST_CASE("an escaped NUL is an ordinary character", "[json]") {
  const Parsed parsed(R"({"a\u0000b":"c\u0000d"})");
  REQUIRE(parsed.result);
  CHECK(parsed.root()[std::string_view("a\0b", 3)].text() == std::string_view("c\0d", 3));
  CHECK(serialize(parsed.root()) == R"({"a\u0000b":"c\u0000d"})");
}

TEST_CASE("a byte order mark is rejected", "[json]") {
  check_rejected("\xEF\xBB\xBF{}");
  CHECK(error_of(Parsed("\xEF\xBB\xBF{}").result).detail == "begins with a byte order mark");
  check_rejected("\xFE\xFF{}");
  check_rejected("\xFF\xFE{}");
}

TEST_CASE("trailing bytes are rejected, trailing white space is not", "[json]") {
  for (const char* text : {"{}x", "{}{}", "{} ,", "[]]", "1 2", "\"a\"\"b\"", "{}//", "{}/**/", "nullx"})
    check_rejected(text);
  CHECK(Parsed("{} \r\n\t").result);
}

TEST_CASE("invalid JSON is rejected", "[json]") {
  for (const char* text : {"",           " ",           "{",          "[",          "\"",    "{\"a\"}",
                           "{a:1}",      "{'a':1}",     "[1,]",       "{\"a\":1,}", "[,1]",  "[NaN]",
                           "[Infinity]", "[-Infinity]", "NaN",        "[+1]",       "[01]",  "[-]",
                           "[.5]",       "[1.]",        "[1e]",       "[0x10]",     "TRUE",  "undefined",
                           "[\"\\x\"]",  "[\"\\u12\"]", "[\"a\nb\"]", "[\"\t\"]",   "/**/{}"})
    check_rejected(text);
}

TEST_CASE("an escape of half a surrogate pair is read as U+FFFD, in values and names", "[json]") {
  const auto first = [](const std::string& json) {
    INFO(json);
    const Parsed parsed("[" + json + "]");
    REQUIRE(parsed.result);
    return std::string(parsed.root().elements()[0].text());
  };
  CHECK(first(R"("\ud83d x")") == "\uFFFD x");
  CHECK(first(R"("\uD83D")") == "\uFFFD");
  CHECK(first(R"("a\ude42b")") == "a\uFFFDb");
  CHECK(first(R"("\ud800\ud800")") == "\uFFFD\uFFFD");
  CHECK(first(R"("\udc00\ud800")") == "\uFFFD\uFFFD");
  CHECK(first(R"("\ud83d\ud83d\ude42")") == "\uFFFD🙂");
  CHECK(first(R"("\ud800\u0041\n")") == "\uFFFDA\n");
  CHECK(first(R"("\ud83d\ude42")") == "🙂");
  CHECK(first(R"("\ud7ff\ue000")") == "\uD7FF\uE000");
  CHECK(first(R"("\\ud83d")") == R"(\ud83d)");  // an escaped backslash before "ud83d"
  CHECK(first(R"("\\\ud83d")") == "\\\uFFFD");
  CHECK(Parsed(R"({"\ud83d":1})").root()["\uFFFD"].integer() == 1);
  for (const char* text :
       {R"(["\ud83d\u12"])", R"(["\ud83d\x"])", R"(["\ud83"])", R"(["\ud83d)", R"(["\ud83d\)"})
    check_rejected(text);
  // Bytes are not escapes: these are not UTF-8.
  for (const char* text : {"[\"\xED\xA0\x80\"]", "[\"\xED\xB0\x80\"]", "[\"\xED\xA0\xBD\xED\xB9\x82\"]"})
    check_rejected(text);
}

TEST_CASE("every JSON text with escapes is read as if lone surrogates were U+FFFD", "[json]") {
  CHECK(rc::check("escapes", [] {
    const auto units = *rc::gen::container<std::vector<std::uint16_t>>(rc::gen::elementOf(
        std::vector<std::uint16_t>{0x41, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0x5C}));
    std::string text = "[\"", wanted = "[\"";
    for (std::size_t i = 0; i < units.size(); ++i) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", units[i]);
      text += escape.data();
      const auto is = [&](std::size_t at, unsigned from) {
        return at < units.size() && (units[at] & 0xFC00u) == from;
      };
      const bool starts_pair = is(i, 0xD800) && is(i + 1, 0xDC00);
      if (starts_pair) {
        std::snprintf(escape.data(), escape.size(), "\\u%04x", units[++i]);
        text += escape.data();
        wanted += text.substr(text.size() - 12);
      } else {
        wanted += is(i, 0xD800) || is(i, 0xDC00) ? "\uFFFD" : text.substr(text.size() - 6);
      }
    }
    text += "\"]";
    wanted += "\"]";
    RC_ASSERT(reserialize(text) == reserialize(wanted));
  }));
}

TEST_CASE("strings and names that are not UTF-8 are rejected", "[json]") {
  for (const char* bytes :
       {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    check_rejected("[\"" + std::string(bytes) + "\"]");
    check_rejected("{\"" + std::string(bytes) + "\":1}");
    check_rejected("[\"12345678" + std::string(bytes) + "12345678\"]");
  }
}

TEST_CASE("bytes around an escape do not combine into one character", "[json]") {
  check_rejected("[\"\xC3\\u00a9\"]");
  check_rejected("[\"\xC3\\n\xA9\"]");
}

TEST_CASE("nesting is bounded, and a million brackets do not crash the parser", "[json]") {
  CHECK(Parsed(nested(16)).result);
  check_rejected(nested(17));
  check_rejected(nested(1000000));
  check_rejected(std::string(1000000, '['));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  check_rejected(objects);
  CHECK(Parsed(nested(100), {.max_depth = 100, .max_nodes = 4096}).result);
}

TEST_CASE("siblings do not count as depth", "[json]") {
  CHECK(Parsed("[" + nested(15) + "," + nested(15) + "]").result);
  CHECK_FALSE(Parsed("[" + nested(15) + "," + nested(16) + "]").result);
}

TEST_CASE("the number of values is bounded, including names", "[json]") {
  const json::Limits five{.max_depth = 16, .max_nodes = 5};
  CHECK(Parsed("[1,2,3,4]", five).result);
  CHECK_FALSE(Parsed("[1,2,3,4,5]", five).result);
  CHECK(Parsed(R"({"a":1,"b":2})", five).result);
  CHECK_FALSE(Parsed(R"({"a":1,"b":2,"c":3})", five).result);
}

TEST_CASE("integers keep every digit, up to 2^64 - 1", "[json]") {
  const Parsed parsed(
      "[9007199254740993,9223372036854775807,-9223372036854775808,9223372036854775808,"
      "18446744073709551615,18446744073709551616,-9223372036854775809,0,-0]");
  REQUIRE(parsed.result);
  const auto values = parsed.root().elements();
  CHECK(values[0].integer() == 9007199254740993);
  CHECK(values[1].integer() == std::numeric_limits<std::int64_t>::max());
  CHECK(values[2].integer() == std::numeric_limits<std::int64_t>::min());
  CHECK(values[3].type() == Type::kUnsigned);
  CHECK_FALSE(values[3].integer());
  CHECK(values[3].unsigned_integer() == 9223372036854775808u);
  CHECK(values[4].unsigned_integer() == std::numeric_limits<std::uint64_t>::max());
  CHECK(values[5].type() == Type::kDouble);
  CHECK(values[5].number() == 18446744073709551616.0);
  CHECK(values[6].type() == Type::kDouble);
  CHECK(values[7].integer() == 0);
  CHECK(values[8].integer() == 0);
  CHECK_FALSE(values[2].unsigned_integer());
}

TEST_CASE("1.0 and 1e3 are numbers but not integers", "[json]") {
  for (const char* text : {"1.0", "1e3", "1E0", "-0.0"}) {
    const Parsed parsed(text);
    CHECK_FALSE(parsed.root().integer());
    CHECK(parsed.root().number());
  }
}

TEST_CASE("numbers out of a double's range are rejected", "[json]") {
  for (const char* text :
       {"1e400", "-1e400", "1e309", "1e99999999999", "1e-400", "-1e-400", "1e-99999999999"})
    check_rejected(text);
  check_rejected(std::string(400, '1'));
  CHECK(Parsed("1.7976931348623157e308").root().number() == std::numeric_limits<double>::max());
  CHECK(Parsed("5e-324").root().number() == std::numeric_limits<double>::denorm_min());
  CHECK(Parsed("0e-400").root().number() == 0.0);
}

TEST_CASE("a document can be reused, and drops its previous content", "[json]") {
  Document document;
  std::string first = R"({"a":"first","b":1})";
  std::string second = R"({"a":"second"})";
  std::string broken = R"({"a":"third",)";
  REQUIRE(document.parse(first));
  REQUIRE(document.parse(second));
  CHECK(document.root()["a"].text() == "second");
  CHECK(document.root()["b"].is_missing());
  REQUIRE_FALSE(document.parse(broken));
  CHECK(document.root().is_missing());
}

TEST_CASE("the writer separates members and elements with commas", "[json]") {
  std::string out;
  Writer writer(out);
  writer.begin_object()
      .key("a")
      .integer(-1)
      .key("b")
      .begin_array()
      .string("x")
      .null()
      .boolean(true)
      .begin_object();
  writer.end_object().begin_array().end_array().end_array().key("c").unsigned_integer(18446744073709551615u);
  writer.key("d").raw("{\"e\":1}").key("f").number(0.5).end_object();
  CHECK(out == R"({"a":-1,"b":["x",null,true,{},[]],"c":18446744073709551615,"d":{"e":1},"f":0.5})");
}

TEST_CASE("rewriting a parsed text reproduces it", "[json]") {
  for (const char* text :
       {R"({})", R"([])", R"(["\"\\\b\f\n\r\t\u0001\u001f/"])", R"({"a":{"b":[{"c":null}]},"d":false})",
        R"([1.5,-2,18446744073709551615])", R"("x")", "7"})
    CHECK(reserialize(text) == text);
  CHECK(reserialize(R"(["\/\u0041\u00e9"])") == "[\"/Aé\"]");
}

TEST_CASE("invalid UTF-8 is written as U+FFFD, so that the output is valid JSON", "[json]") {
  std::string out;
  Writer(out).string("a\xFFz\xC3");
  CHECK(out == "\"a\xEF\xBF\xBDz\xEF\xBF\xBD\"");
  CHECK(Parsed(out).result);
}

TEST_CASE("every finite double is written so that it parses to the same value", "[json]") {
  CHECK(rc::check("doubles", [](std::uint64_t bits) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    RC_PRE(std::isfinite(value));
    std::string out;
    Writer(out).number(value);
    RC_ASSERT(Parsed(out).root().number() == value);
  }));
  for (const double value :
       {0.1, 1e22, 1e21, 123456789012345680000.0, 9007199254740993.0, 5e-324, 1.0, -2.2908}) {
    std::string out;
    Writer(out).number(value);
    CHECK(Parsed(out).root().number() == value);
  }
}

TEST_CASE("a negative zero keeps its sign", "[json]") {
  CHECK(reserialize("-0.0") == "-0.0");
  CHECK(reserialize("-0.0e+28") == "-0.0");
  CHECK(std::signbit(*Parsed("-0.0").root().number()));
}

TEST_CASE("every valid UTF-8 string survives writing and parsing", "[json]") {
  CHECK(rc::check("strings", [] {
    const auto text = *rc::gen::oneOf(
        rc::gen::arbitrary<std::string>(), rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127)),
        rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                         "\"", "\\", std::string(1, '\0'), "é", "文", "🙂", "\u2028", "\x7f", "</script>")),
                     [](const std::vector<std::string>& parts) {
                       std::string all;
                       for (const auto& part : parts) all += part;
                       return all;
                     }));
    std::string out;
    Writer(out).begin_object().key(text).string(text).end_object();
    const Parsed parsed(out);
    RC_ASSERT(static_cast<bool>(parsed.result));
    if (utf8::is_valid(text)) {
      RC_ASSERT(parsed.root().members()[0].first == text);
      RC_ASSERT(parsed.root()[text].text() == text);
    }
  }));
}

TEST_CASE("random bytes do not crash the parser, and rewriting is idempotent", "[json]") {
  CHECK(rc::check("soup", [] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::elementOf(std::string("{}[]\",:\\u0dD8e.-+19nulltrefs \xC3\xA9\xED")));
    const Parsed first(text);
    if (!first.result) return;
    const std::string once = serialize(first.root());
    const Parsed second(once);
    RC_ASSERT(static_cast<bool>(second.result));
    RC_ASSERT(serialize(second.root()) == once);
  }));
}
