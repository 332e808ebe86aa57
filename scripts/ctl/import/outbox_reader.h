// The outbox of an account on Mastodon or another service that speaks ActivityPub.
#pragma once

#include <istream>

#include "core/base/result.h"
#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

// Reads the public posts of an outbox (outbox.json of an archive of Mastodon). Leaves out boosts,
// replies to others, and posts for followers or persons. Hashtags become tags, and a content
// warning the title. Needs memory for one post. Errors: kInvalid "bad_outbox" or "bad_json"; posts
// before the error have been delivered.
Result<void> read_outbox(std::istream& in, const SourceSink& sink);

}  // namespace freshet::ctl
