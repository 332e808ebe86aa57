// libFuzzer: the readable text of any text in any format is valid and bounded.
#include <string>

#include "core/base/utf8.h"
#include "core/search/readable_text.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace freshet;
  // Valid UTF-8 by replacing what is not, since other texts are not parsed.
  std::string text(reinterpret_cast<const char*>(bytes), size);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t valid = utf8::decode(text, at).size;
    if (valid == 0) text[at] = '?';
    at += valid == 0 ? 1 : valid;
  }
  for (const auto format : {items::TextFormat::kHtml, items::TextFormat::kMarkdown}) {
    std::string buffer;
    const std::string once(search::readable_text(text, format, buffer));
    fuzz::require(once.size() <= 4 * text.size() + 1);
    fuzz::require(utf8::is_valid(once));
    fuzz::require(search::readable_text(text, format, buffer) == once);  // with a used buffer
  }
  return 0;
}
