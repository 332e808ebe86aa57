// Protects the internal server from web pages in an operator's browser. Such a page can send
// requests to it, also through a host name that its author points at it (DNS rebinding). It cannot
// forge Host, Origin and Sec-Fetch-Site, which the browser sets; clients that are not browsers send
// neither of the last two.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"
#include "fcgi/gateway/request.h"

namespace freshet::http {

// The target of a request; decides which checks apply.
enum class InternalResource : std::uint8_t {
  kData,    // everything else
  kPage,    // status and metrics; links on other sites may lead here
  kHealth,  // ping and health, which reveal nothing; allowed under any host name
};

// Ok if no page of another site can have sent this request. `hosts`: names of the internal server
// (http.internal_hosts), without port. IP addresses need not be listed, because an attacker's page
// cannot have one as its name; nor can browsers connect to unix sockets. `trusts_proxy`: as in
// is_over_tls(). Errors: kForbidden, "unknown_host" or "foreign_origin".
Result<void> check_internal_request(const Request& request, std::span<const std::string> hosts,
                                    InternalResource resource, bool trusts_proxy = false);

}  // namespace freshet::http
