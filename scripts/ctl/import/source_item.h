// An entry of a feed, an export or a folder, before it has an id, and the sink that format readers
// deliver to.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/time.h"
#include "core/items/ports.h"

namespace freshet::ctl {

// Texts are valid UTF-8. Empty members are absent from the source.
struct SourceItem {
  std::string position;  // where it is, for messages: "line 7", "entry 3", "posts/a.md"
  std::string guid;      // the source's own id
  std::string table_id;  // the id in a table's column "id", or in the one that --id names
  std::string url;       // absolute; relative ones are resolved against the source's address
  std::string slug;
  std::string title;  // plain text; the first words of the text if the source has no title
  std::string text;
  items::TextFormat text_format = items::TextFormat::kPlain;
  std::string author, author_id, section, language;
  std::vector<std::string> tags;
  std::optional<UnixSeconds> published_at, updated_at, expires_at;
  bool hidden = false;  // a draft, private, protected by a password, or deleted
};

// Receives what the readers of formats find, in the order of the source.
struct SourceSink {
  // False ends reading without an error.
  std::function<bool(SourceItem)> item;
  // An entry that cannot be read: its position and a sentence without a full stop.
  std::function<void(std::string_view position, std::string_view reason)> skipped;
};

}  // namespace freshet::ctl
