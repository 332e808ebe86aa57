#include "fcgi/handlers/recommendations.h"

#include <array>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/items/card_json.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/reason_json.h"

namespace freshet::handlers {

namespace {

constexpr std::int64_t kDefaultLimit = 20;

constexpr std::array kExcludeNames{
    EnumName<recommend::ExclusionMode>{"hard", recommend::ExclusionMode::kHard},
    EnumName<recommend::ExclusionMode>{"soft", recommend::ExclusionMode::kSoft},
    EnumName<recommend::ExclusionMode>{"off", recommend::ExclusionMode::kOff}};

void write_items(json::Writer& writer, const std::vector<recommend::Recommendation>& items) {
  writer.key("items").begin_array();
  for (const recommend::Recommendation& each : items) {
    writer.begin_object();
    items::write_card(writer, each.id, *each.card);
    writer.key("score").number(each.score);
    write_reason(writer, each.reason);
    writer.end_object();
  }
  writer.end_array();
}

Response render(const recommend::RecommendPage& page) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_items(writer, page.items);
  writer.key("excluded").begin_object();
  writer.key("interacted").unsigned_integer(page.excluded.interacted);
  writer.key("viewed").unsigned_integer(page.excluded.viewed);
  writer.key("not_interested").unsigned_integer(page.excluded.not_interested).end_object();
  writer.key("model").string(page.model);
  write_degraded(writer, page.degraded);
  writer.end_object();
  Response response = private_json(std::move(out));
  if (page.degraded) response.headers += "Freshet-Degraded: true\r\n";
  return response;
}

// Logs the reader and what was excluded.
void log_page(const ReaderId& reader, const recommend::RecommendPage& page) {
  log::debug("recommendations_served",
             {{"user", reader.str()},
              {"items", std::to_string(page.items.size())},
              {"excluded_interacted", std::to_string(page.excluded.interacted)},
              {"excluded_viewed", std::to_string(page.excluded.viewed)},
              {"excluded_not_interested", std::to_string(page.excluded.not_interested)},
              {"degraded", page.degraded ? "true" : "false"}});
}

}  // namespace

Task<Result<Response>> get_recommendations(Call& call) {
  Services& services = call.services;
  FRESHET_CO_TRY(claimed, http::id_parameter<ReaderId>(call.target, "userId"));
  FRESHET_CO_TRY(limit, http::integer_parameter(call.target, "limit", kDefaultLimit, 1, kMaxLimit));
  FRESHET_CO_TRY(exclude, parse_enum(kExcludeNames, "exclude", call.target.parameter("exclude"),
                                     std::optional(recommend::ExclusionMode::kHard), "bad_exclude"));
  const http::ClaimedIdentity claim{*claimed, {}};
  FRESHET_CO_TRY(principal, call.identify(claim));
  const recommend::RecommendRequest request{principal->reader, static_cast<std::size_t>(*limit), *exclude,
                                            call.search_cost()};
  call.request.on_deadline = [&services, &request] {
    return render(services.recommendations.fallback_page(request));
  };
  FRESHET_CO_TRY(page, co_await services.recommendations.page(request));
  page->degraded = services.or_data_loss(page->degraded);
  log_page(principal->reader, *page);
  co_return render(*page);
}

Task<Result<Response>> get_similar(Call& call) {
  FRESHET_CO_TRY(id, ItemId::parse(call.match.parameters[0], "id"));
  FRESHET_CO_TRY(limit, http::integer_parameter(call.target, "limit", kDefaultLimit, 1, kMaxLimit));
  FRESHET_CO_TRY(claimed, http::id_parameter<ReaderId>(call.target, "userId"));
  const http::ClaimedIdentity claim{*claimed, {}};
  const auto principal = call.identify(claim);  // a client that failed verification is anonymous
  const ReaderId reader = principal ? principal->reader : ReaderId();
  FRESHET_CO_TRY(page, co_await call.services.recommendations.similar(
                           *id, reader, static_cast<std::size_t>(*limit), call.search_cost()));
  page->degraded = call.services.or_data_loss(page->degraded);
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_items(writer, page->items);
  writer.key("model").string(page->model);
  write_degraded(writer, page->degraded);
  writer.end_object();
  Response response = private_json(std::move(out));
  if (page->degraded) response.headers += "Freshet-Degraded: true\r\n";
  co_return response;
}

Task<Result<Response>> get_model(Call& call) {
  if (call.services.settings.train.publish_folder.empty())
    co_return fail(ErrorCode::kNotFound, "no_model", {}, "train.publish is not set here");
  Response response;
  response.content_type = "application/octet-stream";
  response.headers = "X-Accel-Redirect: /freshet.model\r\nCache-Control: no-store\r\n";
  co_return response;
}

}  // namespace freshet::handlers
