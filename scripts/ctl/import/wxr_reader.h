// Exports of WordPress (WXR, Tools > Export).
#pragma once

#include <istream>

#include "core/base/result.h"
#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

// Reads the posts and pages of an export, not its attachments, menus, revisions and custom types.
// Categories and tags become tags, without "Uncategorized"; the first category is the section.
// Needs memory for one post and the authors. Errors: kInvalid "bad_wxr" or "bad_xml"; posts before
// the error have been delivered.
Result<void> read_wxr(std::istream& in, const SourceSink& sink);

}  // namespace freshet::ctl
