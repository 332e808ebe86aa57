// Origins (the Fetch standard): which pages of other sites may call the public routes, and which
// requests come from a page that may not. Origins are listed exactly; "*" is not one, since replies
// depend on cookies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fcgi/gateway/request.h"
#include "fcgi/http/router.h"

namespace freshet::http {

bool equals_ignore_case(std::string_view a, std::string_view b);  // of ASCII letters

class Cors {
 public:
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  // Scheme and host compare without case, as browsers send them in lower case anyway. "null" is
  // never allowed.
  bool allows(std::string_view origin) const;

  // True iff a page of another site sent this: its Origin is neither that of the site it was sent
  // to nor allowed. Browsers name the origin of every request that is no GET or HEAD; what names
  // none is no browser's. "null" (a sandboxed frame, a data: URL, a page whose Referrer-Policy is
  // no-referrer) is another site.
  bool is_foreign(const Request& request) const;

  // The reply to OPTIONS. REQUIRES: match.outcome is kOptions. 204 with Allow, and on public routes
  // with the Access-Control lines when the origin is allowed; 403 "origin_not_allowed" when one is
  // named and is not.
  Response options_response(const Request& request, const Match& match) const;

  // Adds what lets the calling page read the reply; nothing when the origin is not allowed. Only
  // for routes in Zone::kPublic. While origins are configured it always adds Vary: Origin, for
  // caches on the way.
  void add_cors_headers(const Request& request, Response& response) const;

 private:
  std::vector<std::string> origins_;
};

// True iff `origin` and `site`, both scheme://host[:port], are one host and port. Schemes are not
// compared, since TLS may end before us; so of the site 80 and 443 both are no port, of the origin
// its scheme's own.
bool is_same_host(std::string_view origin, std::string_view site);

}  // namespace freshet::http
