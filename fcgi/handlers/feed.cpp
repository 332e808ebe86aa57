#include "fcgi/handlers/feed.h"

#include <array>

#include "core/base/json.h"
#include "core/items/card_json.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/reader_name.h"
#include "fcgi/handlers/reason_json.h"

namespace freshet::handlers {

namespace {

constexpr std::int64_t kDefaultLimit = 20;
constexpr std::size_t kMaxQueryBytes = 512;  // what recall takes
constexpr std::size_t kMaxPageBytes = 128;

struct Action {
  feed::FeedAction action;
  std::string_view letter;  // in FeedRequest::request
};
constexpr std::array kActions{Word<Action>{"refresh", {feed::FeedAction::kRefresh, "r"}},
                              Word<Action>{"load_more", {feed::FeedAction::kLoadMore, "m"}},
                              Word<Action>{"peek", {feed::FeedAction::kPeek, "p"}}};

// Blanks alone are no query.
std::string trimmed(const std::optional<std::string>& text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t from = text ? text->find_first_not_of(kBlanks) : std::string::npos;
  if (from == std::string::npos) return {};
  return text->substr(from, text->find_last_not_of(kBlanks) + 1 - from);
}

struct FeedBody {
  feed::FeedRequest request;  // reader still to be found
  std::string_view action_letter;
  ReaderId agent;               // empty when absent
  std::string_view agent_name;  // the member that names it
  std::string page;
  EventId event;
};

// {action, limit?, userId? (or agent_id), query?, page?, eventId?}
Result<FeedBody> parse_feed(json::Value body) {
  FeedBody parsed;
  FRESHET_TRY(action,
              one_of(kActions, "action", word_member(body, "action"), std::optional<Action>(), "bad_action"));
  FRESHET_TRY(limit, json::optional_integer(body, "limit", 1, kMaxLimit));
  parsed.agent_name = reader_member(body, "agent_id");
  FRESHET_TRY(agent, json::optional_id<ReaderId>(body, parsed.agent_name));
  FRESHET_TRY(query, json::optional_string(body, "query", kMaxQueryBytes));
  FRESHET_TRY(page, json::optional_string(body, "page", kMaxPageBytes));
  FRESHET_TRY(event, json::optional_id<EventId>(body, "eventId"));
  parsed.action_letter = action->letter;
  parsed.request.action = action->action;
  parsed.request.limit = static_cast<std::size_t>(limit->value_or(kDefaultLimit));
  parsed.request.query = trimmed(*query);
  parsed.agent = std::move(*agent);
  parsed.page = std::move(*page).value_or("");
  parsed.event = std::move(*event);
  return parsed;
}

// What the same page is asked for by again: the last page received, else the event id.
Result<std::string> request_name(const FeedBody& body, http::PageTokens& pages) {
  const std::string action(body.action_letter);
  if (!body.page.empty()) {
    FRESHET_TRY(last, pages.verify(body.request.reader, body.page));
    return action + ".p." + std::to_string(last->generation) + "." + std::to_string(last->sequence);
  }
  if (!body.event.empty()) return action + ".e." + body.event.str();
  return std::string();
}

json::Writer begin_data(std::string& out) {
  json::Writer writer(out);
  writer.begin_object().key("code").integer(0).key("msg").string("success").key("data").begin_object();
  return writer;
}

// A page that nothing could be taken for leaves the client's cursor as it was: asking again with it
// gives the page that was missed.
Response render(const feed::FeedPage& page, const FeedBody& body, http::PageTokens& pages) {
  std::string out;
  json::Writer writer = begin_data(out);
  writer.key("items").begin_array();
  for (const feed::FeedItem& item : page.items) {
    writer.begin_object();
    items::write_card(writer, item.id, *item.card);
    write_reason(writer, item.reason);
    writer.end_object();
  }
  writer.end_array();
  writer.key("has_more").boolean(!page.exhausted).key("page");
  if (page.generation > 0)
    writer.string(pages.sign(body.request.reader, {page.generation, page.sequence}));
  else if (!body.page.empty())
    writer.string(body.page);
  else
    writer.null();
  writer.key("exhausted").boolean(page.exhausted);
  write_degraded(writer, page.degraded);
  writer.end_object().end_object();
  Response response = private_json(std::move(out));
  if (page.degraded) response.headers += "Freshet-Degraded: true\r\n";
  return response;
}

Response render(const std::optional<std::size_t>& fresh) {
  std::string out;
  json::Writer writer = begin_data(out);
  writer.key("new").unsigned_integer(fresh.value_or(0));
  if (!fresh) writer.key("degraded").boolean(true);
  writer.end_object().end_object();
  return private_json(std::move(out));
}

// By what it waits for: the index, or Redis.
Response late(const Call& call, const FeedBody& body) {
  if (body.request.action == feed::FeedAction::kPeek) return render(std::optional<std::size_t>());
  feed::FeedPage page;
  page.degraded = call.request.stage.phase == RequestPhase::kRecall ? Dependency::kIndex : Dependency::kRedis;
  return render(page, body, call.services.pages);
}

}  // namespace

Task<Result<Response>> post_feed(Call& call) {
  Services& services = call.services;
  json::Document document;
  FRESHET_CO_TRY(body, read_object(document, call.request.body));
  FRESHET_CO_TRY(parsed, parse_feed(*body));
  const auto who = call.who({parsed->agent, {}});
  if (!who) co_return tl::unexpected(who.error());
  if (who->reader.empty())
    co_return fail(ErrorCode::kInvalid, "bad_id", std::string(parsed->agent_name),
                   "a feed belongs to a reader who is known");
  parsed->request.reader = who->reader;
  parsed->request.cost = call.metered();
  parsed->request.allow_writes = !call.writes_later();
  FRESHET_CO_TRY(name, request_name(*parsed, services.pages));
  call.request.if_late = [&call, &asked = *parsed] { return late(call, asked); };

  if (parsed->request.action == feed::FeedAction::kPeek) {
    FRESHET_CO_TRY(fresh, co_await services.feed.peek(parsed->request));
    co_return render(*fresh);
  }
  parsed->request.idempotency_key = std::move(*name);
  FRESHET_CO_TRY(page, co_await services.feed.page(parsed->request));
  page->degraded = services.or_lost(page->degraded);
  services.count_feed_page(page->degraded.has_value());
  co_return render(*page, *parsed, services.pages);
}

}  // namespace freshet::handlers
