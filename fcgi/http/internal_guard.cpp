#include "fcgi/http/internal_guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "fcgi/http/cors.h"

namespace freshet::http {
namespace {

// The Host without its port; empty when none came. An IPv6 address loses its brackets.
std::string host_of(std::string_view site) {
  constexpr std::string_view kMark = "://";
  const std::size_t mark = site.find(kMark);
  if (mark == site.npos) return {};
  std::string_view host = site.substr(mark + kMark.size());
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.rfind(':')));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool is_known(const std::string& host, std::span<const std::string> hosts) {
  return host.empty() || is_address(host) ||
         std::ranges::any_of(hosts, [&](const std::string& each) { return equal_without_case(each, host); });
}

}  // namespace

Result<void> check_internal(const Request& request, std::span<const std::string> hosts, Asked asked) {
  if (request.remote_addr == "unix:") return {};
  if (asked != Asked::kHealth && !is_known(host_of(request.site), hosts))
    return fail(ErrorCode::kForbidden, "unknown_host", {}, "the Host is none of http.internal_hosts");
  if (!request.origin.empty() && !same_host(request.origin, request.site))
    return fail(ErrorCode::kForbidden, "foreign_origin", {}, "the Origin is not the internal server's own");
  if (asked == Asked::kData && request.sec_fetch_site == "cross-site")
    return fail(ErrorCode::kForbidden, "foreign_origin", {}, "a page of another site asks");
  return {};
}

}  // namespace freshet::http
