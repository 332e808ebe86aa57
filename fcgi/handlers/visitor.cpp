#include "fcgi/handlers/visitor.h"

#include <sys/random.h>

#include <array>

#include "core/base/json.h"
#include "fcgi/handlers/json_reply.h"

namespace freshet::handlers {

Result<void> add_visitor_cookie(const Call& call, Response& response) {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return fail(ErrorCode::kInternal, "no_random");
  http::Identity& identity = call.services.identity;
  const bool secure = identity.is_over_tls(call.request);
  response.add_header("Set-Cookie", identity.issue_visitor_cookie(random, secure).set_cookie);
  return {};
}

Task<Result<Response>> post_visitor(Call& call) {
  const http::ClaimedIdentity no_claim;
  FRESHET_CO_TRY(principal, call.identify(no_claim));
  Response response;
  response.status = 204;
  response.headers = "Cache-Control: private, no-store\r\n";
  if (!principal->needs_cookie || call.is_bot()) co_return response;
  FRESHET_CO_TRY(added, add_visitor_cookie(call, response));
  co_return response;
}

Task<Result<Response>> get_whoami(Call& call) {
  const http::ClaimedIdentity no_claim;
  FRESHET_CO_TRY(principal, call.identify(no_claim));
  std::string out;
  json::Writer writer(out);
  const auto write = [&writer](std::string_view name, std::string_view id) {
    writer.key(name);
    if (id.empty())
      writer.null();
    else
      writer.string(id);
  };
  writer.begin_object();
  write("key", call.key_id);
  write("userId", principal->reader.view());
  writer.end_object();
  co_return private_json(std::move(out));
}

}  // namespace freshet::handlers
