#include "fcgi/http/internal_guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "fcgi/http/cors.h"

namespace freshet::http {
namespace {

bool is_address(int family, std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(family, std::string(text).c_str(), bytes.data()) == 1;
}

bool is_port(std::string_view text) {
  constexpr std::size_t kMaxDigits = 5;
  return !text.empty() && text.size() <= kMaxDigits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// `site`: scheme://Host. Allowed are name, IPv4 address or [IPv6 address], each with or without
// :port, and no Host at all.
bool is_allowed_host(std::string_view site, std::span<const std::string> hosts) {
  constexpr std::string_view kSchemeSeparator = "://";
  const std::size_t separator = site.find(kSchemeSeparator);
  const std::string_view host =
      separator == site.npos ? std::string_view() : site.substr(separator + kSchemeSeparator.size());
  if (host.empty()) return true;
  const bool bracketed = host.front() == '[';
  const std::size_t end = bracketed ? host.find(']') + 1 : std::min(host.find(':'), host.size());
  const std::string_view port = host.substr(end);
  if (!port.empty() && (port.front() != ':' || !is_port(port.substr(1)))) return false;
  if (bracketed) return end > 1 && is_address(AF_INET6, host.substr(1, end - 2));
  const std::string_view name = host.substr(0, end);
  return is_address(AF_INET, name) ||
         std::ranges::any_of(hosts, [&](const std::string& each) { return equals_ignore_case(each, name); });
}

}  // namespace

Result<void> check_internal_request(const Request& request, std::span<const std::string> hosts,
                                    InternalResource resource, bool trusts_proxy) {
  if (request.remote_addr == "unix:") return {};
  if (resource != InternalResource::kHealth && !is_allowed_host(request.site, hosts))
    return fail(ErrorCode::kForbidden, "unknown_host", {}, "the Host is not listed in http.internal_hosts");
  if (!request.origin.empty() && !is_own_origin(request, trusts_proxy))
    return fail(ErrorCode::kForbidden, "foreign_origin", {},
                describe_origins(request, trusts_proxy).append("; ").append(origin_advice(request)));
  if (resource == InternalResource::kData && request.sec_fetch_site == "cross-site")
    return fail(ErrorCode::kForbidden, "foreign_origin", {}, "the request comes from a page of another site");
  return {};
}

}  // namespace freshet::http
