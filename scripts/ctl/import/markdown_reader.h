// A folder of Markdown files, such as the sources of a site made by Hugo, Jekyll or Hexo.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/base/result.h"
#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

// Reads the Markdown files below a folder, and the HTML files with front matter, in the order of
// their paths. Which generator made the site is recognized by its configuration, in the folder or
// up to two above. A link is the path that the generator gives the page: that of `url` or
// `permalink`, otherwise by the file's name and, for Jekyll and Hexo, the permalinks of its
// configuration. It refers to `base_url` or, if that is empty, the address in the configuration.
// Files in _drafts are hidden. Reads at most 1 MiB of a file; one that is not text or cannot be
// read is skipped. Errors: kInvalid "bad_folder", also if a folder in it cannot be read.
Result<void> read_markdown(const std::filesystem::path& folder, std::string_view base_url,
                           const SourceSink& sink);

}  // namespace freshet::ctl
