// Formats lines of access.log. Pure.
//
// Privacy: addresses are truncated (IPv4 to /24, IPv6 to /48), user names appear only with %{id}u
// and query strings only with %q. Both may identify readers, as may paths of the internal server.
// Control characters, quotes and backslashes from clients are written as \xNN.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "core/config/access_format.h"
#include "fcgi/gateway/request.h"

namespace freshet::observe {

struct AccessEntry {
  const Request& request;
  const Response& response;
  std::chrono::system_clock::time_point received, written;
  std::chrono::microseconds duration{0};
  pid_t pid = 0, parent = 0;
  std::size_t peak_memory = 0;  // the worker's, in bytes
  std::string_view route;       // "GET /api/hot"; empty: no route matched
};

void append_access_line(std::string& line, const std::vector<AccessFormatPart>& format,
                        const AccessEntry& entry);

// "192.0.2.17" → "192.0.2.0", "2001:db8:1:2::3" → "2001:db8:1::". "-" if it is not an address.
std::string truncate_address(std::string_view address);
// Parts of a request's URI before and after the '?'.
std::string_view path_of(std::string_view uri);
std::string_view query_of(std::string_view uri);

}  // namespace freshet::observe
