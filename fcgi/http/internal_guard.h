// The internal server against the pages that its operator's browser opens. Such a page can send it
// requests, and a name of the page's own can lead to it (DNS rebinding). What no page can forge are
// Host, Origin and Sec-Fetch-Site, which browsers add themselves; what is no browser sends none of
// the last two.
#pragma once

#include <span>
#include <string>

#include "core/base/result.h"
#include "fcgi/gateway/request.h"

namespace freshet::http {

// What is asked for.
enum class InternalResource : std::uint8_t {
  kData,    // everything else
  kPage,    // status and metrics: a link from another site may lead there
  kHealth,  // ping and health, which say nothing: under any name
};

// Ok iff no page of another site can have sent this. `hosts`: names of the internal server
// (http.internal_hosts), without port. Addresses need not be listed, since no name of anybody's
// stands in such a Host; and no browser speaks to a unix socket. Errors: kForbidden, "unknown_host"
// or "foreign_origin".
Result<void> check_internal_request(const Request& request, std::span<const std::string> hosts, InternalResource resource);

}  // namespace freshet::http
