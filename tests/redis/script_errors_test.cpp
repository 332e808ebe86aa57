#include "core/redis/script_errors.h"

#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <string>

#include "core/redis/scripts.h"

namespace freshet::redis {
namespace {

// The words that the scripts answer, as errors and as statuses.
std::set<std::string> answered() {
  const std::regex said("(?:error_reply\\((?:format\\()?|return )'([A-Z_]+)[ ']");
  std::set<std::string> words;
  for (const redis::Script& script : redis::kAllScripts) {
    const std::string text(script.source);
    for (std::sregex_iterator at(text.begin(), text.end(), said), end; at != end; ++at)
      words.insert((*at)[1].str());
  }
  return words;
}

TEST_CASE("the words that the scripts answer and those that the stores know are the same", "[store]") {
  std::set<std::string> known;
  for (const redis::ScriptError& each : redis::kScriptErrors) known.emplace(each.prefix);
  CHECK(answered() == known);
}

TEST_CASE("every error of a script begins with a literal word that the test above can see", "[store]") {
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

TEST_CASE("a word is the whole first word of a line, and what follows it is apart", "[store]") {
  CHECK(redis::has_code("UNLISTED nobody vouched", redis::word::kUnverified));
  CHECK(redis::has_code("RETRY", redis::word::kRetry));
  CHECK_FALSE(redis::has_code("UNLISTEDER than that", redis::word::kUnverified));
  CHECK_FALSE(redis::has_code("the UNLISTED", redis::word::kUnverified));
  CHECK_FALSE(redis::has_code("", redis::word::kRetry));
  CHECK(redis::after_code("DAY 20518") == "20518");
  CHECK(redis::after_code("DAY").empty());
}

}  // namespace
}  // namespace freshet::redis
