#include "core/redis/script_errors.h"

#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <string>

#include "core/redis/scripts.h"

namespace freshet::redis {
namespace {

// The codes that the scripts return, as errors and as statuses.
std::set<std::string> returned_codes() {
  const std::regex said("(?:error_reply\\((?:format\\()?|return )'([A-Z_]+)[ ']");
  std::set<std::string> words;
  for (const redis::Script& script : redis::kAllScripts) {
    const std::string text(script.source);
    for (std::sregex_iterator at(text.begin(), text.end(), said), end; at != end; ++at)
      words.insert((*at)[1].str());
  }
  return words;
}

TEST_CASE("kScriptErrors lists exactly the codes that the scripts return", "[store]") {
  std::set<std::string> known;
  for (const redis::ScriptError& each : redis::kScriptErrors) known.emplace(each.prefix);
  CHECK(returned_codes() == known);
}

TEST_CASE("every error of a script begins with a literal code that the test above finds", "[store]") {
  const std::regex any("error_reply"), seen("error_reply\\((?:format\\()?'[A-Z_]+ ");
  const auto count = [](const std::string& text, const std::regex& what) {
    return std::distance(std::sregex_iterator(text.begin(), text.end(), what), std::sregex_iterator());
  };
  for (const redis::Script& script : redis::kAllScripts) {
    CAPTURE(script.name);
    const std::string text(script.source);
    CHECK(count(text, any) == count(text, seen));
  }
}

TEST_CASE("a code matches only the whole first word of a line, and the rest is its detail", "[store]") {
  CHECK(redis::has_code("UNLISTED not verified", redis::script_code::kUnverified));
  CHECK(redis::has_code("RETRY", redis::script_code::kRetry));
  CHECK_FALSE(redis::has_code("UNLISTED_X not a code", redis::script_code::kUnverified));
  CHECK_FALSE(redis::has_code("the UNLISTED", redis::script_code::kUnverified));
  CHECK_FALSE(redis::has_code("", redis::script_code::kRetry));
  CHECK(redis::after_code("DAY 20518") == "20518");
  CHECK(redis::after_code("DAY").empty());
}

}  // namespace
}  // namespace freshet::redis
