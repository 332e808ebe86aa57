// Sitemaps, with the extension for news, and indexes of sitemaps.
#pragma once

#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

struct SitemapLinks {
  std::vector<std::string> sitemaps;  // those that an index names; absolute, at most 50,000
};

// Reads a sitemap or an index. Pages that are not news have no published_at, and a title made from
// the link. `base_url` is the sitemap's address; may be empty. Errors: kInvalid "bad_sitemap" or
// "bad_xml"; entries before the error have been delivered.
Result<SitemapLinks> read_sitemap(std::istream& in, std::string_view base_url, const SourceSink& sink);

}  // namespace freshet::ctl
