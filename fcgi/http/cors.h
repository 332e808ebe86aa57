// CORS (the Fetch standard): which origins may call the public routes from a browser, and which
// requests come from a page of another site. Origins are listed exactly; "*" is not accepted,
// because replies depend on cookies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fcgi/gateway/request.h"
#include "fcgi/http/router.h"

namespace freshet::http {

bool equals_ignore_case(std::string_view a, std::string_view b);  // ASCII only

// True if the client came over TLS, to nginx or to a proxy in front of it. `trusts_proxy`:
// X-Forwarded-Proto says so (http.scheme_header).
bool is_over_tls(const Request& request, bool trusts_proxy);

// True if the request's Origin is the requested site itself: scheme, host and port. A default port
// may be written or not.
bool is_own_origin(const Request& request, bool trusts_proxy);

// The two values that is_own_origin() compares, for the detail of "foreign_origin". Both come from
// the client; each is cut to 200 bytes.
std::string describe_origins(const Request& request, bool trusts_proxy);

// Names the header that a proxy must pass so that the origins are the same, for the same detail.
std::string_view origin_advice(const Request& request);

class Cors {
 public:
  explicit Cors(std::vector<std::string> origins, bool trusts_proxy = false)
      : origins_(std::move(origins)), trusts_proxy_(trusts_proxy) {}

  // Compares scheme and host case-insensitively. "null" is never allowed.
  bool allows(std::string_view origin) const;

  // True if a page of another site sent this request: its Origin is neither the requested site nor
  // an allowed origin. Browsers send an Origin with every request except GET and HEAD, so a write
  // without one does not come from a browser. "null" (a sandboxed frame, a data: URL, a page with
  // Referrer-Policy: no-referrer) counts as another site.
  bool is_foreign(const Request& request) const;

  // The reply to OPTIONS, without the headers that add_cors_headers() adds to every reply.
  // REQUIRES: match.outcome is kOptions. 204 with Allow. On public routes also with the methods
  // and headers that are allowed if the request's origin is, or 403 "origin_not_allowed" if not.
  Response options_response(const Request& request, const Match& match) const;

  // Adds the headers that let the calling page read the reply; none if the origin is not allowed.
  // Only for routes in Zone::kPublic. Always adds Vary: Origin while origins are configured, for
  // shared caches.
  void add_cors_headers(const Request& request, Response& response) const;

 private:
  std::vector<std::string> origins_;
  bool trusts_proxy_;
};

}  // namespace freshet::http
