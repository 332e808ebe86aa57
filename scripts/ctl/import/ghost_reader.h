// Exports of Ghost (Settings > Labs > Export).
#pragma once

#include <istream>

#include "core/base/result.h"
#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

// Reads the posts and pages of an export, in two passes: `in` must be seekable. An export names no
// addresses of the site: a link is the post's path, "/slug/". Needs memory for the tables of tags
// and authors and for one post. Errors: kInvalid "bad_ghost" or "bad_json"; posts before the error
// have been delivered.
Result<void> read_ghost(std::istream& in, const SourceSink& sink);

}  // namespace freshet::ctl
