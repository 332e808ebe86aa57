#include "fcgi/http/internal_guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "fcgi/http/cors.h"

namespace freshet::http {
namespace {

// The Host without its port; empty if none was sent. An IPv6 address loses its brackets.
std::string host_without_port(std::string_view site) {
  constexpr std::string_view kSchemeSeparator = "://";
  const std::size_t separator = site.find(kSchemeSeparator);
  if (separator == site.npos) return {};
  std::string_view host = site.substr(separator + kSchemeSeparator.size());
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.rfind(':')));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool is_allowed_host(const std::string& host, std::span<const std::string> hosts) {
  return host.empty() || is_address(host) ||
         std::ranges::any_of(hosts, [&](const std::string& each) { return equals_ignore_case(each, host); });
}

}  // namespace

Result<void> check_internal_request(const Request& request, std::span<const std::string> hosts,
                                    InternalResource resource) {
  if (request.remote_addr == "unix:") return {};
  if (resource != InternalResource::kHealth && !is_allowed_host(host_without_port(request.site), hosts))
    return fail(ErrorCode::kForbidden, "unknown_host", {}, "the Host is not listed in http.internal_hosts");
  if (!request.origin.empty() && !is_same_host(request.origin, request.site))
    return fail(ErrorCode::kForbidden, "foreign_origin", {}, "the Origin is not the internal server's own");
  if (resource == InternalResource::kData && request.sec_fetch_site == "cross-site")
    return fail(ErrorCode::kForbidden, "foreign_origin", {}, "the request comes from a page of another site");
  return {};
}

}  // namespace freshet::http
