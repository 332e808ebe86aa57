// Reasons in words.
#pragma once

#include <string>
#include <string_view>

#include "core/recommend/recommendations.h"

namespace freshet::recommend {

// "like", "author", "new_in_tag", "rising", "new", "match" or "more": stable, for programs.
std::string_view reason_name(Reason::Kind kind);

// English, for a page that has no words of its own: "like “Title”, which you favourited".
std::string reason_text(const Reason& reason);

}  // namespace freshet::recommend
