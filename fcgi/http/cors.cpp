#include "fcgi/http/cors.h"

#include <strings.h>

#include <algorithm>
#include <optional>

#include "fcgi/http/problem.h"

namespace freshet::http {

bool equals_ignore_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

namespace {

struct Origin {
  std::string_view scheme, host_port;
};

std::optional<Origin> parse_origin(std::string_view text) {
  constexpr std::string_view kSchemeSeparator = "://";
  const std::size_t separator = text.find(kSchemeSeparator);
  if (separator == text.npos || separator == 0 || separator + kSchemeSeparator.size() == text.size())
    return std::nullopt;
  return Origin{text.substr(0, separator), text.substr(separator + kSchemeSeparator.size())};
}

void drop_port(std::string_view& host_port, std::string_view port) {
  if (host_port.ends_with(port)) host_port.remove_suffix(port.size());
}

}  // namespace

bool is_over_tls(const Request& request, bool trusts_proxy) {
  if (request.site.starts_with("https://")) return true;
  // With several proxies, the first value is the client's.
  return trusts_proxy &&
         equals_ignore_case(request.forwarded_proto.substr(0, request.forwarded_proto.find(',')), "https");
}

bool is_own_origin(const Request& request, bool trusts_proxy) {
  auto from = parse_origin(request.origin), to = parse_origin(request.site);
  if (!from || !to) return false;
  const bool over_tls = is_over_tls(request, trusts_proxy);
  for (Origin* each : {&*from, &*to}) drop_port(each->host_port, over_tls ? ":443" : ":80");
  return equals_ignore_case(from->scheme, over_tls ? "https" : "http") &&
         equals_ignore_case(from->host_port, to->host_port);
}

std::string describe_origins(const Request& request, bool trusts_proxy) {
  constexpr std::size_t kMaxBytes = 200;
  const auto to = parse_origin(request.site);
  std::string site = to ? std::string(is_over_tls(request, trusts_proxy) ? "https" : "http")
                              .append("://")
                              .append(to->host_port.substr(0, kMaxBytes))
                        : std::string("unknown (no Host)");
  return std::string("the page's origin is ")
      .append(request.origin.substr(0, kMaxBytes))
      .append(", but the request's is ")
      .append(site);
}

std::string_view origin_advice(const Request& request) {
  auto from = parse_origin(request.origin), to = parse_origin(request.site);
  for (auto* each : {&from, &to}) {
    if (!*each) continue;
    drop_port((*each)->host_port, ":443");
    drop_port((*each)->host_port, ":80");
  }
  if (from && to && equals_ignore_case(from->host_port, to->host_port))
    return "only the scheme differs: a proxy that ends TLS must pass X-Forwarded-Proto, and "
           "http.scheme_header "
           "must name it";
  return "a proxy must pass Host";
}

bool Cors::is_foreign(const Request& request) const {
  return !request.origin.empty() && !allows(request.origin) && !is_own_origin(request, trusts_proxy_);
}

bool Cors::allows(std::string_view origin) const {
  if (origin.empty() || origin == "null" || origin == "*") return false;
  return std::ranges::any_of(
      origins_, [origin](const std::string& allowed) { return equals_ignore_case(allowed, origin); });
}

Response Cors::options_response(const Request& request, const Match& match) const {
  const bool cross_origin = match.is_public && !request.origin.empty();
  if (cross_origin && !allows(request.origin)) {
    return problem({ErrorCode::kForbidden, "origin_not_allowed", {}, {}});
  }
  Response response;
  response.status = 204;
  response.add_header("Allow", match.allow);
  if (cross_origin) {
    response.add_header("Access-Control-Allow-Methods", match.allow);
    response.add_header("Access-Control-Allow-Headers", "Content-Type, Authorization, If-None-Match, Prefer");
    response.add_header("Access-Control-Max-Age", "86400");
  }
  return response;
}

void Cors::add_cors_headers(const Request& request, Response& response) const {
  if (origins_.empty()) return;
  response.add_header("Vary", "Origin");
  if (!allows(request.origin)) return;
  response.add_header("Access-Control-Allow-Origin", request.origin);
  response.add_header("Access-Control-Allow-Credentials", "true");
  response.add_header(
      "Access-Control-Expose-Headers",
      "ETag, Freshet-Below-Floor, Freshet-Model, Freshet-Degraded, Freshet-Ignored, Retry-After");
}

}  // namespace freshet::http
