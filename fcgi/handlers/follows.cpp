#include "fcgi/handlers/follows.h"

#include "core/base/json.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse_readers.h"
#include "fcgi/handlers/parse_timeline.h"
#include "fcgi/handlers/read_body.h"
#include "fcgi/handlers/reader_name.h"
#include "fcgi/handlers/require_reader.h"

namespace freshet::handlers {

namespace {

constexpr std::string_view kOk = "{\"ok\":true}";

// Follows require a channel (waterfall.follow_channel).
Result<Follow> parse_enabled_follow(Call& call) {
  if (call.services.settings.timeline.follow_channel.empty())
    return fail(ErrorCode::kNotFound, "unknown_channel", {}, "waterfall.follow_channel is not set");
  if (call.request.body.empty()) return parse_follow(call.target);
  json::Document document;
  FRESHET_TRY(body, read_body(call, document));
  return parse_follow(*body);
}

// `authors`: null if Redis is unavailable.
std::string render(const std::vector<AuthorId>* authors) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("items").begin_array();
  if (authors) {
    for (const AuthorId& each : *authors) writer.string(each.view());
  }
  writer.end_array();
  if (!authors) writer.key("degraded").boolean(true);
  writer.end_object();
  return out;
}

}  // namespace

Task<Result<Response>> put_follow(Call& call) {
  FRESHET_CO_TRY(follow, parse_enabled_follow(call));
  FRESHET_CO_TRY(done, co_await call.services.follows.follow(follow->follower, follow->author));
  co_return private_json(std::string(kOk));
}

Task<Result<Response>> delete_follow(Call& call) {
  FRESHET_CO_TRY(follow, parse_enabled_follow(call));
  FRESHET_CO_TRY(done, co_await call.services.follows.unfollow(follow->follower, follow->author));
  co_return private_json(std::string(kOk));
}

Task<Result<Response>> get_follows(Call& call) {
  const auto name = reader_parameter(call.target, "follower");
  FRESHET_CO_TRY(claimed, http::id_parameter<ReaderId>(call.target, name));
  FRESHET_CO_TRY(reader, require_reader(call, *claimed, name));
  if (is_anonymous_reader(*reader))
    co_return fail(ErrorCode::kInvalid, "bad_id", std::string(name),
                   "Sign in first: anonymous visitors cannot follow.");
  const auto authors = co_await call.services.follows.followed_authors(*reader);
  if (authors) co_return private_json(render(&*authors));
  if (!is_unavailable(authors.error())) co_return tl::unexpected(authors.error());
  Response response = private_json(render(nullptr));
  response.headers += "Freshet-Degraded: true\r\n";
  co_return response;
}

}  // namespace freshet::handlers
