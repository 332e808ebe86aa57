// libFuzzer: items of any feed, sitemap or export are ones that the service takes, apart from their
// ids and dates.
#include <sstream>
#include <string>

#include "core/base/ids.h"
#include "core/base/utf8.h"
#include "core/items/item_limits.h"
#include "scripts/ctl/import/csv_reader.h"
#include "scripts/ctl/import/feed_reader.h"
#include "scripts/ctl/import/ghost_reader.h"
#include "scripts/ctl/import/outbox_reader.h"
#include "scripts/ctl/import/sitemap_reader.h"
#include "scripts/ctl/import/source_format.h"
#include "scripts/ctl/import/wxr_reader.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;

bool fits(std::string_view text, std::size_t max_bytes) {
  return text.size() <= max_bytes && utf8::is_valid(text);
}

bool check(const ctl::SourceItem& item) {
  fuzz::require(!item.title.empty() && fits(item.title, items::kMaxTitleBytes));
  fuzz::require(fits(item.text, items::kMaxTextBytes) && item.text.find('\0') == std::string::npos);
  fuzz::require(fits(item.url, items::kMaxUrlBytes) && fits(item.author, kMaxIdBytes));
  fuzz::require(item.language.empty() || items::is_language_tag(item.language));
  fuzz::require(utf8::is_valid(item.guid) && utf8::is_valid(item.slug));
  fuzz::require(utf8::is_valid(item.section) && utf8::length(item.section) <= items::kMaxSectionLetters);
  fuzz::require(item.tags.size() <= items::kMaxTags);
  std::size_t bytes = 0;
  for (const std::string& tag : item.tags) {
    fuzz::require(parse_tag(tag, "tags").has_value());
    bytes += tag.size();
  }
  fuzz::require(bytes <= items::kMaxTagsBytes);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const ctl::SourceSink sink{.item = check,
                             .skipped = [](std::string_view position, std::string_view reason) {
                               fuzz::require(!position.empty() && !reason.empty());
                             }};
  const auto read = [&](auto reader) {
    std::istringstream in(text);
    const auto done = reader(in);
    fuzz::require(done || !done.error().detail.empty());
  };
  ctl::detect_format(text);
  read([&](std::istream& in) { return ctl::read_feed(in, "https://example.org/feed/", sink); });
  read([&](std::istream& in) { return ctl::read_sitemap(in, "", sink); });
  read([&](std::istream& in) { return ctl::read_wxr(in, sink); });
  read([&](std::istream& in) { return ctl::read_ghost(in, sink); });
  read([&](std::istream& in) { return ctl::read_outbox(in, sink); });
  read([&](std::istream& in) { return ctl::read_csv_items(in, sink); });
  return 0;
}
