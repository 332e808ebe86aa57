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

class Cors {
 public:
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  // Compares scheme and host case-insensitively. "null" is never allowed.
  bool allows(std::string_view origin) const;

  // True if a page of another site sent this request: its Origin is neither the requested site nor
  // an allowed origin. Browsers send an Origin with every request except GET and HEAD, so a write
  // without one does not come from a browser. "null" (a sandboxed frame, a data: URL, a page with
  // Referrer-Policy: no-referrer) counts as another site.
  bool is_foreign(const Request& request) const;

  // The reply to OPTIONS. REQUIRES: match.outcome is kOptions. 204 with Allow. On public routes
  // also with the Access-Control headers if the request's origin is allowed, or 403
  // "origin_not_allowed" if it is not.
  Response options_response(const Request& request, const Match& match) const;

  // Adds the headers that let the calling page read the reply; none if the origin is not allowed.
  // Only for routes in Zone::kPublic. Always adds Vary: Origin while origins are configured, for
  // shared caches.
  void add_cors_headers(const Request& request, Response& response) const;

 private:
  std::vector<std::string> origins_;
};

// True if `origin` and `site`, both scheme://host[:port], have the same host and port. Schemes are
// not compared, because TLS may end at a proxy. Therefore both :80 and :443 count as no port in
// `site`, but in `origin` only the default port of its scheme does.
bool is_same_host(std::string_view origin, std::string_view site);

}  // namespace freshet::http
