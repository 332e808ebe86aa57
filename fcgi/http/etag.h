// Entity tags (RFC 9110, section 8.8.3): a polling client sends the tag it has, and gets 304
// without a body while the reply is unchanged.
#pragma once

#include <string>
#include <string_view>

#include "fcgi/gateway/request.h"

namespace freshet::http {

// A strong, quoted tag: a hash of the body, the same on every host.
std::string compute_etag(std::string_view body);

// True if an If-None-Match header names the tag. Uses weak comparison, because nginx weakens the
// tags of replies that it compresses. A malformed header is evaluated as far as possible.
bool matches_etag(std::string_view if_none_match, std::string_view etag);

// Adds an ETag to a complete reply (200 with a body, not degraded) unless its handler set one, and
// turns the reply into 304 if the client has that tag.
void apply_if_none_match(const Request& request, Response& response);

}  // namespace freshet::http
