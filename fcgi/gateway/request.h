// A request as the gateway passes it on, and the reply that it takes back. Plain values: no
// FastCGI, no sockets.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/async/request_trace.h"

namespace freshet {

enum class Method : std::uint8_t { kGet, kHead, kPost, kPut, kDelete, kOptions, kOther };
inline constexpr std::array<std::string_view, 7> kMethodNames{"GET",    "HEAD",    "POST", "PUT",
                                                              "DELETE", "OPTIONS", ""};
// "GET"; "" for kOther.
inline std::string_view method_name(Method method) { return kMethodNames[static_cast<std::size_t>(method)]; }

// The nginx server that received the request. nginx says so in the FastCGI parameter FRESHET_ZONE
// ("public", "internal"), which no client can set. Any other value counts as public, the zone with
// fewer rights.
enum class Zone : std::uint8_t { kPublic, kInternal };

// How long a request may take before it is answered without its handler (Request::on_deadline):
// gateway.request_budget, gateway.bulk_budget, or no limit.
enum class Budget : std::uint8_t { kRequest, kBulk, kNone };

struct Response {
  int status = 200;
  std::string_view content_type = "application/json";  // a literal
  std::string headers;  // further lines, each "Name: value\r\n"; values contain no CR or LF (see add_header)
  std::string body;

  // Appends a header line. Drops control characters from `value`.
  void add_header(std::string_view name, std::string_view value);
};

// Views point into the connection's decoded parameters and stay valid until the handler's task has
// ended.
struct Request {
  Method method = Method::kOther;
  Zone zone = Zone::kPublic;
  std::string_view uri;  // REQUEST_URI, raw: path and query, not decoded
  std::string_view content_type;
  std::string_view remote_addr;  // after nginx's set_real_ip_from
  std::string_view user_agent;
  std::string_view origin;
  std::string_view cookie;
  std::string_view authorization;
  std::string_view if_none_match;
  std::string_view prefer;
  std::string_view verified_user;  // FRESHET_USER: the user that auth_request found (identity.mode = header)
  std::string_view site;           // FRESHET_SITE: scheme://host[:port] as requested by the client
  std::string_view prefix;         // FRESHET_PREFIX: the part of `uri` before the routes, "/freshet"
  std::string_view sec_fetch_site;
  std::string_view sec_purpose;      // of a prefetch or prerendering; otherwise empty
  std::string_view forwarded_proto;  // sent by a proxy in front of nginx; see http.scheme_header
  std::string_view request_id;       // FRESHET_REQUEST_ID: nginx's $freshet_request_id
  std::string body;                  // complete; exactly CONTENT_LENGTH bytes
  std::size_t body_bytes = 0;        // size of the body as received; a handler may have consumed it
  std::chrono::steady_clock::time_point first_byte_at;
  std::chrono::steady_clock::time_point last_byte_at;
  RequestTrace trace;                // the application sets its route
  Budget budget = Budget::kRequest;  // the application may change it before it first suspends
  // Makes the reply when the budget is used up. Set by handlers that can answer without the result
  // they are waiting for; what it captures must live as long as the handler's task. If it is unset
  // or returns nullopt, the reply is 503.
  std::function<std::optional<Response>()> on_deadline;
};

}  // namespace freshet
