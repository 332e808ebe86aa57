#include "fcgi/http/cors.h"

#include <strings.h>

#include <algorithm>

#include "fcgi/http/problem.h"

namespace freshet::http {

bool Cors::allows(std::string_view origin) const {
  if (origin.empty() || origin == "null" || origin == "*") return false;
  return std::ranges::any_of(origins_, [origin](const std::string& known) {
    return known.size() == origin.size() && strncasecmp(known.data(), origin.data(), origin.size()) == 0;
  });
}

Response Cors::options(const Request& request, const Match& match) const {
  const bool cross_origin = match.is_public && !request.origin.empty();
  if (cross_origin && !allows(request.origin)) {
    return problem({ErrorCode::kForbidden, "origin_not_allowed", {}, {}});
  }
  Response response;
  response.status = 204;
  response.add_header("Allow", match.allow);
  if (cross_origin) {
    decorate(request, response);
    response.add_header("Access-Control-Allow-Methods", match.allow);
    response.add_header("Access-Control-Allow-Headers", "Content-Type, Authorization");
    response.add_header("Access-Control-Max-Age", "86400");
  }
  return response;
}

void Cors::decorate(const Request& request, Response& response) const {
  if (origins_.empty()) return;
  response.add_header("Vary", "Origin");
  if (!allows(request.origin)) return;
  response.add_header("Access-Control-Allow-Origin", request.origin);
  response.add_header("Access-Control-Allow-Credentials", "true");
}

}  // namespace freshet::http
