#include "fcgi/handlers/recommendations.h"

#include <array>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/recommend/reason_text.h"
#include "fcgi/handlers/card_json.h"
#include "fcgi/handlers/json_reply.h"

namespace freshet::handlers {

namespace {

constexpr std::int64_t kDefaultLimit = 20;

struct ExcludeName {
  std::string_view name;
  feed::Exclude exclude;
};
constexpr std::array kExcludes{ExcludeName{"hard", feed::Exclude::kHard},
                               ExcludeName{"soft", feed::Exclude::kSoft},
                               ExcludeName{"off", feed::Exclude::kOff}};

Result<feed::Exclude> exclude_of(const http::Target& target) {
  const auto given = target.parameter("exclude");
  if (!given) return feed::Exclude::kHard;
  for (const ExcludeName& each : kExcludes) {
    if (each.name == *given) return each.exclude;
  }
  return fail(ErrorCode::kInvalid, "bad_exclude", "exclude", "one of hard, soft, off");
}

void write_reason(json::Writer& writer, const feed::Reason& reason) {
  writer.key("reason").begin_object().key("kind").string(feed::reason_name(reason.kind));
  switch (reason.kind) {
    case feed::Reason::Kind::kLike:
      writer.key("id").string(reason.item.view()).key("title").string(reason.title);
      writer.key("interaction").string(rank::kind_of(reason.interaction).name);
      break;
    case feed::Reason::Kind::kByAuthor:
      writer.key("author").string(reason.name);
      break;
    case feed::Reason::Kind::kNewInTag:
      writer.key("tag").string(reason.name);
      break;
    case feed::Reason::Kind::kRising:
    case feed::Reason::Kind::kNew:
    case feed::Reason::Kind::kMatch:
    case feed::Reason::Kind::kMore:
      break;
  }
  writer.key("text").string(feed::reason_text(reason)).end_object();
}

void write_items(json::Writer& writer, const std::vector<feed::Recommendation>& items, bool reasons) {
  writer.key("items").begin_array();
  for (const feed::Recommendation& each : items) {
    writer.begin_object();
    write_card(writer, each.id, *each.card);
    writer.key("score").number(each.score);
    if (reasons) write_reason(writer, each.reason);
    writer.end_object();
  }
  writer.end_array();
}

Response render(const feed::RecommendPage& page) {
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
void write_log(const ReaderId& reader, const feed::RecommendPage& page) {
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
  const auto claimed = http::id_parameter<ReaderId>(call.target, "userId");
  if (!claimed) co_return tl::unexpected(claimed.error());
  const auto limit = http::integer_parameter(call.target, "limit", kDefaultLimit, 1, kMaxLimit);
  if (!limit) co_return tl::unexpected(limit.error());
  const auto exclude = exclude_of(call.target);
  if (!exclude) co_return tl::unexpected(exclude.error());
  const http::Claim claim{*claimed, {}};
  const auto who = call.who(claim);
  if (!who) co_return tl::unexpected(who.error());
  const feed::RecommendRequest request{who->reader, static_cast<std::size_t>(*limit), *exclude,
                                       call.metered()};
  auto page = co_await services.recommendations.page(request);
  if (!page) co_return tl::unexpected(page.error());
  page->degraded |= services.redis_lost();
  write_log(who->reader, *page);
  co_return render(*page);
}

Task<Result<Response>> get_similar(Call& call) {
  const auto id = ItemId::parse(call.match.parameters[0], "id");
  if (!id) co_return tl::unexpected(id.error());
  const auto limit = http::integer_parameter(call.target, "limit", kDefaultLimit, 1, kMaxLimit);
  if (!limit) co_return tl::unexpected(limit.error());
  auto page =
      co_await call.services.recommendations.similar(*id, static_cast<std::size_t>(*limit), call.metered());
  if (!page) co_return tl::unexpected(page.error());
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
