#include "fcgi/handlers/operation.h"

#include "fcgi/handlers/status.h"

namespace freshet::handlers {

namespace {

Response text(std::string body) {
  Response response;
  response.content_type = "text/plain; charset=utf-8";
  response.headers = "Cache-Control: no-store\r\n";
  response.body = std::move(body);
  return response;
}

}  // namespace

Task<Result<Response>> get_ping(Call& call) { co_return text(call.services.settings.pool.ping_response); }

Task<Result<Response>> get_status(Call& call) {
  Services& services = call.services;
  const bool full = call.target.parameter("full").has_value();
  Result<feed::SeenStatus> read = fail(ErrorCode::kUnavailable, "redis_away");
  if (services.redis_ready()) read = co_await services.feed_store.seen_status();
  const feed::SeenStatus* seen = read ? &*read : nullptr;
  if (!call.target.parameter("json"))
    co_return text(status_text(services.board, services.settings, seen, wall_now(), full));
  Response response = text(status_json(services.board, services.settings, seen, wall_now(), full));
  response.content_type = "application/json";
  co_return response;
}

Task<Result<Response>> get_live(Call&) { co_return text("alive\n"); }

Task<Result<Response>> get_ready(Call& call) {
  if (!call.services.redis_ready()) co_return fail(ErrorCode::kUnavailable, "redis_away");
  co_return text("ready\n");
}

}  // namespace freshet::handlers
