// Feeds: RSS 0.9 to 2.0, RSS 1.0 (RDF), Atom and JSON Feed.
#pragma once

#include <istream>
#include <string_view>

#include "core/base/result.h"
#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

// Reads a feed of any of these formats. `base_url` is its address, to which relative links refer;
// may be empty. Needs memory for one entry. Errors: kInvalid "bad_feed", "bad_xml" or "bad_json";
// entries before the error have been delivered.
Result<void> read_feed(std::istream& in, std::string_view base_url, const SourceSink& sink);

}  // namespace freshet::ctl
