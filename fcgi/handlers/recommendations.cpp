#include "fcgi/handlers/recommendations.h"

#include <array>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/recommend/reason_text.h"
#include "fcgi/handlers/card_json.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse.h"

namespace freshet::handlers {

namespace {

constexpr std::int64_t kDefaultLimit = 20;

struct ExcludeName {
  std::string_view name;
  recommend::Exclude exclude;
};
constexpr std::array kExcludes{ExcludeName{"hard", recommend::Exclude::kHard},
                               ExcludeName{"soft", recommend::Exclude::kSoft},
                               ExcludeName{"off", recommend::Exclude::kOff}};

Result<recommend::Exclude> exclude_of(const http::Target& target) {
  const auto given = target.parameter("exclude");
  if (!given) return recommend::Exclude::kHard;
  for (const ExcludeName& each : kExcludes) {
    if (each.name == *given) return each.exclude;
  }
  return fail(ErrorCode::kInvalid, "bad_exclude", "exclude", "one of hard, soft, off");
}

void write_reason(json::Writer& writer, const recommend::Reason& reason) {
  writer.key("reason").begin_object().key("kind").string(recommend::reason_name(reason.kind));
  switch (reason.kind) {
    case recommend::Reason::Kind::kLike:
      writer.key("id").string(reason.item.view()).key("title").string(reason.title);
      writer.key("interaction").string(readers::kind_of(reason.interaction).name);
      break;
    case recommend::Reason::Kind::kByAuthor:
      writer.key("author").string(reason.name);
      break;
    case recommend::Reason::Kind::kNewInTag:
      writer.key("tag").string(reason.name);
      break;
    case recommend::Reason::Kind::kRising:
    case recommend::Reason::Kind::kNew:
    case recommend::Reason::Kind::kMatch:
    case recommend::Reason::Kind::kMore:
      break;
  }
  writer.key("text").string(recommend::reason_text(reason)).end_object();
}

void write_items(json::Writer& writer, const std::vector<recommend::Recommendation>& items, bool reasons) {
  writer.key("items").begin_array();
  for (const recommend::Recommendation& each : items) {
    writer.begin_object();
    write_card(writer, each.id, *each.card);
    writer.key("score").number(each.score);
    if (reasons) write_reason(writer, each.reason);
    writer.end_object();
  }
  writer.end_array();
}

Response render(const recommend::RecommendPage& page) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_items(writer, page.items, true);
  writer.key("excluded").begin_object();
  writer.key("interacted").unsigned_integer(page.excluded.interacted);
  writer.key("viewed").unsigned_integer(page.excluded.viewed);
  writer.key("not_interested").unsigned_integer(page.excluded.not_interested).end_object();
  writer.key("model").string(page.model);
  if (page.degraded) writer.key("degraded").boolean(true);
  writer.end_object();
  Response response = private_json(std::move(out));
  if (page.degraded) response.headers += "Freshet-Degraded: true\r\n";
  return response;
}

// The seed's line: who, and what was kept out.
void write_log(const ReaderId& reader, const recommend::RecommendPage& page) {
  log::debug("recommended", {{"user", reader.str()},
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
  FRESHET_CO_TRY(exclude, exclude_of(call.target));
  const http::Claim claim{*claimed, {}};
  FRESHET_CO_TRY(who, call.who(claim));
  const recommend::RecommendRequest request{who->reader, static_cast<std::size_t>(*limit), *exclude,
                                            call.metered()};
  FRESHET_CO_TRY(page, co_await services.recommendations.page(request));
  page->degraded |= services.redis_lost();
  write_log(who->reader, *page);
  co_return render(*page);
}

Task<Result<Response>> get_similar(Call& call) {
  FRESHET_CO_TRY(id, ItemId::parse(call.match.parameters[0], "id"));
  FRESHET_CO_TRY(limit, http::integer_parameter(call.target, "limit", kDefaultLimit, 1, kMaxLimit));
  FRESHET_CO_TRY(page, co_await call.services.recommendations.similar(*id, static_cast<std::size_t>(*limit),
                                                                      call.metered()));
  page->degraded |= call.services.redis_lost();
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_items(writer, page->items, false);
  writer.key("model").string(page->model);
  if (page->degraded) writer.key("degraded").boolean(true);
  writer.end_object();
  Response response = private_json(std::move(out));
  if (page->degraded) response.headers += "Freshet-Degraded: true\r\n";
  co_return response;
}

}  // namespace freshet::handlers
