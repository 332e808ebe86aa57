#include "scripts/ctl/commands/print.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>

using namespace freshet::ctl;

namespace {

std::string printed(std::string_view text) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  freshet::ctl::print(file, "title: {}\n", text);
  std::rewind(file);
  std::array<char, 200> bytes{};
  const std::size_t size = std::fread(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  return {bytes.data(), size};
}

}  // namespace

TEST_CASE("text that others wrote does not control the terminal", "[print]") {
  CHECK(printed("\x1b[2J\x1b]0;owned\x07") == "title: \\x1b[2J\\x1b]0;owned\\x07\n");
  CHECK(printed("a\rb\x7f\xc2\x9b[2J") == "title: a\\x0db\\x7f\\xc2\\x9b[2J\n");
  CHECK(printed("a\xffz\xe2\x80\xa8") == "title: a\\xffz\\xe2\\x80\\xa8\n");
  CHECK(printed("plain \"é\" \\ text") == "title: plain \"é\" \\ text\n");
  CHECK(printed("two\nlines") == "title: two\nlines\n");
  CHECK(printable("two\nlines\t") == "two\\nlines\\x09");
}

TEST_CASE("JSON keeps its meaning when control characters are escaped", "[print]") {
  CHECK(escape_json("{\"title\":\"a\x7f\xc2\x9b\"}\n{}") == "{\"title\":\"a\\u007f\\u009b\"}\n{}");
}
