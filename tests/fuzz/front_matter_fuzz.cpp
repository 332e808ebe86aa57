// libFuzzer: front matter of any text is read or refused, and the body is a part of the text.
#include <string>

#include "scripts/ctl/import/front_matter.h"
#include "scripts/ctl/import/permalink.h"
#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace freshet;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto file = ctl::split_front_matter(text);
  fuzz::require(file || !file.error().detail.empty());
  if (file) {
    fuzz::require(file->body.empty() || text.ends_with(file->body));
    const auto& front = file->front_matter;
    ctl::PermalinkParts parts = ctl::date_parts(front.first({"date"}));
    parts["title"] = front.first({"title"});
    ctl::expand_permalink(front.first({"permalink"}), parts);
    ctl::resolve_url("https://example.org/blog/", front.first({"url"}));
  }
  ctl::parse_source_date(text);
  return 0;
}
