// freshetctl import of feeds, sitemaps, exports and folders.
#pragma once

#include <optional>
#include <string>

#include "scripts/ctl/http/fetch.h"
#include "scripts/ctl/import/source_format.h"
#include "scripts/ctl/replay/import.h"

namespace freshet::ctl {

struct SourceChoice {
  std::string location;                // a URL or a path; "-": stdin
  std::optional<SourceFormat> format;  // unset: to be detected in the document
};
// The source that `options` name. Errors: kInvalid "bad_option" unless it is exactly one; kNotFound
// "no_file".
Result<SourceChoice> choose_source(const ImportOptions& options);

// Puts the entries as items, in bulk requests of up to 1,000. A repetition puts the same items
// again, which changes nothing. Returns the exit status: 1 when an entry was skipped or rejected,
// when a part of the source could not be read, or when --prune was refused. Errors: anything that
// prevents completion.
Result<int> import_source(const SourceChoice& source, const ImportOptions& options, const Target& target);

}  // namespace freshet::ctl
