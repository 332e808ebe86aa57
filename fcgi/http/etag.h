// Entity tags (RFC 9110, 8.8.3): a client that polls sends back the tag it has, and gets 304
// without a body while that is still the reply.
#pragma once

#include <string>
#include <string_view>

#include "fcgi/gateway/request.h"

namespace freshet::http {

// Strong and quoted: a hash of the bytes, the same on every host.
std::string compute_etag(std::string_view body);

// Whether an If-None-Match names it. Compares weakly, since nginx weakens the tag of what it
// compresses. Takes what it can of a malformed one.
bool matches_etag(std::string_view if_none_match, std::string_view etag);

// Gives a whole reply (200, with a body, not degraded) its tag, unless its handler gave it one, and
// makes it 304 when the client has it.
void apply_if_none_match(const Request& request, Response& response);

}  // namespace freshet::http
