#include "core/base/ids.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <string>

#include "core/base/utf8.h"
#include "tests/support/error_of.h"

using freshet::ErrorCode;
using freshet::ItemId;
using freshet::test::error_of;

namespace {

void check_rejected(const std::string& text) {
  INFO("id of " << text.size() << " bytes: " << text.substr(0, 40));
  const auto result = ItemId::parse(text, "articleId");
  REQUIRE_FALSE(result);
  CHECK(error_of(result).code == ErrorCode::kInvalid);
  CHECK(error_of(result).reason == "bad_id");
  CHECK(error_of(result).member == "articleId");
}

void check_accepted(const std::string& text) {
  INFO("id: " << text);
  CHECK(ItemId::parse(text, "articleId"));
}

std::string encode(char32_t c) {
  std::string out;
  const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 63));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  }
  return out;
}

}  // namespace

TEST_CASE("an id has 1 to 512 bytes in Normalization Form C", "[ids]") {
  check_rejected("");
  check_accepted("a");
  check_accepted(std::string(512, 'a'));
  check_rejected(std::string(513, 'a'));
  check_accepted(std::string(510, 'a') + "é");
  check_rejected(std::string(511, 'a') + "é");
  // 768 bytes that become 512, and 510 that become 1,020.
  std::string decomposed, exclusions;
  for (int i = 0; i < 256; ++i) decomposed += "e\xCC\x81";
  for (int i = 0; i < 170; ++i) exclusions += "\xE0\xA5\x98";  // U+0958, which NFC decomposes
  CHECK(ItemId::parse(decomposed, "id")->str().size() == 512);
  check_rejected(exclusions);
  check_rejected(decomposed + "e\xCC\x81");
  check_rejected(std::string(1 << 20, 'a'));
}

TEST_CASE("an id that is written in two ways is one id", "[ids]") {
  CHECK(*ItemId::parse("e\xCC\x81t\xC3\xA9", "id") == *ItemId::parse("\xC3\xA9te\xCC\x81", "id"));
  CHECK(ItemId::parse("e\xCC\x81", "id")->str() == "\xC3\xA9");
  CHECK(ItemId::parse("\xEF\xBC\xA1", "id")->str() == "\xEF\xBC\xA1");  // not compatibility forms
}

TEST_CASE("ids are kept unchanged, whatever script they use", "[ids]") {
  for (const char* text : {"42",
                           "-7",
                           "é",
                           "文章",
                           "🙂",
                           "a/b",
                           "a?b=c",
                           "%s%n",
                           "<script>",
                           "...",
                           ".a/..b/c..",
                           "[a-z]",
                           "*",
                           "HLL",
                           "List",
                           "lists",
                           ":",
                           "{",
                           "}",
                           "post:42",
                           "https://example.org/a b?c=%7B1%7D",
                           "at://did:plc:x/y",
                           "a b",
                           "%",
                           "%3A",
                           "\\",
                           "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",
                           "می\xE2\x80\x8Cخواهم"}) {
    check_accepted(text);
    CHECK(ItemId::parse(text, "id")->str() == text);
  }
}

TEST_CASE("segments that a path would lose are rejected", "[ids]") {
  for (const char* text :
       {".", "..", "./a", "../a", "a/.", "a/..", "a/../b", "/..", "../", "a/../../../../b"})
    check_rejected(text);
  for (const char* text : {"...", ".a", "a.", "/", "//", "a//b", ".hidden/x", "a/..b", "..\\a"})
    check_accepted(text);
}

TEST_CASE("control characters are rejected, including C1 and DEL", "[ids]") {
  for (char32_t c = 0; c < 0x20; ++c) check_rejected("a" + encode(c) + "b");
  for (char32_t c = 0x7F; c <= 0x9F; ++c) check_rejected("a" + encode(c) + "b");
  check_rejected(std::string("a\0b", 3));
  check_rejected(std::string(1, '\0'));
}

TEST_CASE("white space is rejected, except spaces inside", "[ids]") {
  check_accepted("a b  c");
  for (const char* text : {" ", " a", "a ", "  "}) check_rejected(text);
  for (const char32_t c : std::initializer_list<char32_t>{
           0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
           0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}) {
    check_rejected(encode(c) + "x");
    check_rejected("x" + encode(c));
  }
}

TEST_CASE("invisible characters and bidirectional controls are rejected, except zero-width joiners",
          "[ids]") {
  for (const char32_t c : std::initializer_list<char32_t>{
           0xAD,   0x61C,  0x180E, 0x200B, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x202D,
           0x202E, 0x2060, 0x2061, 0x2064, 0x2066, 0x2067, 0x2068, 0x2069, 0x206F, 0xFEFF}) {
    check_rejected(encode(c) + "x");
    check_rejected("x" + encode(c) + "y");
    check_rejected("x" + encode(c));
  }
  for (const char32_t c :
       std::initializer_list<char32_t>{0xAE, 0x61B, 0x2010, 0x2027, 0x2070, 0xFEFE, 0x1F600})
    check_accepted("x" + encode(c));
}

TEST_CASE("ids that are not well-formed UTF-8 are rejected", "[ids]") {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x80\x80", "\xE2\x82", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    check_rejected(text);
    check_rejected(std::string("ok") + text);
  }
}

TEST_CASE("UTF-8 is valid exactly if it encodes scalar values in their shortest form", "[ids][utf8]") {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string bytes = encode(c);
    const bool scalar = c < 0xD800 || c > 0xDFFF;
    const auto decoded = freshet::utf8::decode(bytes, 0);
    if (freshet::utf8::is_valid(bytes) != scalar ||
        (scalar && (decoded.value != c || decoded.size != bytes.size())))
      FAIL("U+" << std::hex << static_cast<unsigned>(c));
  }
}

TEST_CASE("parse() accepts only Normalization Form C without separators and marks", "[ids]") {
  CHECK(rc::check("accepted bytes", [](const std::string& text) {
    const auto id = ItemId::parse(text, "id");
    if (!id) return;
    RC_ASSERT(!id->empty() && id->view().size() <= freshet::kMaxIdBytes);
    RC_ASSERT(id->str().find_first_of(std::string_view("\x1d\x1e\x1f\t\r\n\0\x7f", 8)) == std::string::npos);
    RC_ASSERT(*ItemId::parse(id->view(), "id") == *id);
  }));
}

TEST_CASE("a tag has up to 64 characters and is kept as it was put", "[ids]") {
  for (const std::string text : {"Machine Learning", "lang:en", "C++", "e\xCC\x81", "{x}", "日本"})
    CHECK(freshet::TagName::parse(text, "tags")->str() == text);
  std::string wide;
  for (int i = 0; i < 64; ++i) wide += "\xF0\x9F\x99\x82";
  CHECK(freshet::TagName::parse(wide, "tags"));
  CHECK_FALSE(freshet::TagName::parse(wide + "a", "tags"));
  CHECK_FALSE(freshet::TagName::parse(std::string(65, 'a'), "tags"));
  // U+FDFA folds to eighteen characters, and a soft hyphen or a lone joiner to none.
  CHECK(freshet::TagName::parse("\xEF\xB7\xBA", "tags"));
  CHECK_FALSE(freshet::TagName::parse("\xEF\xB7\xBA\xEF\xB7\xBA\xEF\xB7\xBA\xEF\xB7\xBA", "tags"));
  for (const std::string text : {"", " ", "a\x07", "\xE2\x80\x8D", "\xC2\xAD", "\xFF"}) {
    const auto refused = freshet::TagName::parse(text, "tags");
    INFO(text);
    REQUIRE_FALSE(refused);
    CHECK(error_of(refused).reason == "bad_id");
  }
}

TEST_CASE("white space in a tag becomes one space, and none stays at its ends", "[ids]") {
  for (const std::string text :
       {"New York", " New York", "New\xC2\xA0York", "New\xE3\x80\x80York\xE3\x80\x80", "\tNew\r\nYork ",
        "New \xE2\x80\xA8 York"}) {
    INFO(text);
    CHECK(freshet::TagName::parse(text, "tags")->str() == "New York");
  }
}

TEST_CASE("an author has the same key under every name that folds to it", "[ids]") {
  using freshet::AuthorId;
  std::string buffer;
  const auto check = [&](const std::string& name, const std::string& key) {
    INFO(name);
    const auto author = AuthorId::parse(name, "author");
    REQUIRE(author);
    CHECK(author->str() == key);
    CHECK(freshet::author_key("", name, buffer) == key);
    CHECK(*AuthorId::parse(author->view(), "author") == *author);
  };
  check("東京\xE3\x80\x80太郎", "東京 太郎");
  check("Ann\xC2\xA0Lee", "ann lee");
  check(
      "\xE2\x80\x8E"
      "Ann",
      "ann");
  check(
      "Donau\xC2\xAD"
      "dampf",
      "donaudampf");
  check("  Ann Lee ", "ann lee");
  check("\xE2\x80\x8E Ann", "ann");
  check("\xC2\xA8x", "\xCC\x88x");  // a diaeresis, which folds to a space and a combining one
  for (const std::string text : {"", "  ", "\xE2\x80\x8B", "a\x07", "a\xE1\x9A\x80z", "\xFF"}) {
    const auto refused = AuthorId::parse(text, "author");
    INFO(text);
    REQUIRE_FALSE(refused);
    CHECK(error_of(refused).reason == "bad_id");
  }
  CHECK(rc::check("every author", [](const std::string& text) {
    const auto author = AuthorId::parse(text, "author");
    if (!author) return;
    std::string key_buffer;
    RC_ASSERT(author->view() == freshet::author_key("", text, key_buffer));
    RC_ASSERT(*AuthorId::parse(author->view(), "author") == *author);
  }));
}

TEST_CASE("authors are one author if their names differ in case or width only", "[ids]") {
  using freshet::AuthorId;
  const AuthorId ann = *AuthorId::parse("Ann Lee", "author");
  CHECK(ann.str() == "ann lee");
  for (const char* text : {"ann lee", "ANN LEE", "Ａnn Lee"}) CHECK(*AuthorId::parse(text, "author") == ann);
  CHECK(*AuthorId::parse("Straße", "author") == *AuthorId::parse("STRASSE", "author"));
  CHECK_FALSE(AuthorId::parse("\xE2\x80\x8D", "author"));
  // 513 bytes or more once folded.
  std::string grows;
  for (int i = 0; i < 30; ++i) grows += "\xEF\xB7\xBA";
  CHECK_FALSE(AuthorId::parse(grows, "author"));
  std::string buffer;
  CHECK(freshet::author_key("", "Ann Lee", buffer) == ann.view());
  CHECK(freshet::author_key("U:1", "Ann Lee", buffer) == "u:1");
  CHECK(freshet::author_key("", "", buffer).empty());
}
