#include "fcgi/handlers/feed.h"

#include <algorithm>
#include <array>

#include "core/base/json.h"
#include "core/items/card_json.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/read_body.h"
#include "fcgi/handlers/reader_name.h"
#include "fcgi/handlers/reason_json.h"
#include "fcgi/handlers/require_reader.h"

namespace freshet::handlers {

namespace {

constexpr std::int64_t kDefaultLimit = 20;
constexpr std::size_t kMaxPageBytes = 128;

struct Action {
  feed::FeedAction action;
  std::string_view letter;  // in FeedRequest::request
};
constexpr std::array kActionNames{EnumName<Action>{"refresh", {feed::FeedAction::kRefresh, "r"}},
                                  EnumName<Action>{"load_more", {feed::FeedAction::kLoadMore, "m"}},
                                  EnumName<Action>{"peek", {feed::FeedAction::kPeek, "p"}}};

// A query of only white space counts as none.
std::string trimmed(const std::optional<std::string>& text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t from = text ? text->find_first_not_of(kBlanks) : std::string::npos;
  if (from == std::string::npos) return {};
  return text->substr(from, text->find_last_not_of(kBlanks) + 1 - from);
}

struct FeedBody {
  feed::FeedRequest request;  // reader not yet resolved
  std::string_view action_letter;
  ReaderId claimed_reader;         // empty when absent
  std::string_view reader_member;  // the member that named it
  std::string page;
  EventId event;
};

// {action, limit?, userId? (or agent_id), query?, page?, eventId?}
Result<FeedBody> parse_feed(json::Value body) {
  FeedBody parsed;
  FRESHET_TRY(action, parse_enum(kActionNames, "action", enum_member(body, "action"), std::optional<Action>(),
                                 "bad_action"));
  FRESHET_TRY(limit, json::optional_integer(body, "limit", 1, kMaxLimit));
  parsed.reader_member = reader_member(body, "agent_id");
  FRESHET_TRY(agent, json::optional_id<ReaderId>(body, parsed.reader_member));
  FRESHET_TRY(query, json::optional_string(body, "query", kStandardBodyLimit));
  FRESHET_TRY(page, json::optional_string(body, "page", kMaxPageBytes));
  FRESHET_TRY(event, json::optional_id<EventId>(body, "eventId"));
  parsed.action_letter = action->letter;
  parsed.request.action = action->action;
  parsed.request.limit = static_cast<std::size_t>(limit->value_or(kDefaultLimit));
  parsed.request.query = trimmed(*query);
  parsed.claimed_reader = std::move(*agent);
  parsed.page = std::move(*page).value_or("");
  parsed.event = std::move(*event);
  return parsed;
}

// Returns whether the page is one of the cookie's visitor, or of a reader who was merged into this
// one. 1 RTT unless it is the visitor's.
Task<bool> was_received_before_merge(Call& call, const FeedBody& body) {
  http::PageTokenSigner& pages = call.services.page_tokens;
  const std::optional<VisitorId>& cookie = call.auth_result->cookie;
  if (cookie && pages.verify(anonymous_reader(*cookie), body.page)) co_return true;
  const auto merged = co_await call.services.users.merged_readers(body.request.reader);
  if (!merged) co_return true;  // unknown; a page token grants nothing
  co_return std::ranges::any_of(
      *merged, [&](const ReaderId& each) { return pages.verify(each, body.page).has_value(); });
}

// Identifies a repeated request for the same page: by the last page received, otherwise by the
// event id. Drops a page that the reader received under another name, before they signed in.
Task<Result<std::string>> idempotency_key(Call& call, FeedBody& body) {
  const std::string action(body.action_letter);
  if (!body.page.empty()) {
    const auto last = call.services.page_tokens.verify(body.request.reader, body.page);
    if (last)
      co_return action + ".p." + std::to_string(last->generation) + "." + std::to_string(last->sequence);
    const bool was_received = co_await was_received_before_merge(call, body);
    if (!was_received) co_return tl::unexpected(last.error());
    body.page.clear();
  }
  if (!body.event.empty()) co_return action + ".e." + body.event.str();
  co_return std::string();
}

json::Writer begin_data(std::string& out) {
  json::Writer writer(out);
  writer.begin_object().key("code").integer(0).key("msg").string("success").key("data").begin_object();
  return writer;
}

// If no page could be delivered, returns the client's cursor unchanged, so that repeating the
// request gives the missed page.
Response render(const feed::FeedPage& page, const FeedBody& body, http::PageTokenSigner& pages) {
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

Response render(const std::optional<std::size_t>& new_count) {
  std::string out;
  json::Writer writer = begin_data(out);
  writer.key("new").unsigned_integer(new_count.value_or(0));
  if (!new_count) writer.key("degraded").boolean(true);
  writer.end_object().end_object();
  return private_json(std::move(out));
}

// The missing dependency is what the request is waiting for: the index or Redis.
Response deadline_reply(const Call& call, const FeedBody& body) {
  if (body.request.action == feed::FeedAction::kPeek) return render(std::optional<std::size_t>());
  call.services.count_feed_page(true);
  feed::FeedPage page;
  page.degraded = call.request.trace.phase == RequestPhase::kRecall ? Dependency::kIndex : Dependency::kRedis;
  return render(page, body, call.services.page_tokens);
}

}  // namespace

Task<Result<Response>> post_feed(Call& call) {
  Services& services = call.services;
  json::Document document;
  FRESHET_CO_TRY(body, read_body(call, document));
  FRESHET_CO_TRY(parsed, parse_feed(*body));
  FRESHET_CO_TRY(reader, require_reader(call, parsed->claimed_reader, parsed->reader_member));
  parsed->request.reader = std::move(*reader);
  parsed->request.cost = call.search_cost();
  parsed->request.allow_writes = !call.must_spool() && call.may_store(parsed->request.reader);
  bool is_late = false;
  call.request.on_deadline = [&call, &feed_body = *parsed, &is_late] {
    is_late = true;
    return deadline_reply(call, feed_body);
  };
  FRESHET_CO_TRY(name, co_await idempotency_key(call, *parsed));

  if (parsed->request.action == feed::FeedAction::kPeek) {
    FRESHET_CO_TRY(new_count, co_await services.feed.peek(parsed->request));
    co_return render(*new_count);
  }
  parsed->request.idempotency_key = std::move(*name);
  FRESHET_CO_TRY(page, co_await services.feed.page(parsed->request));
  page->degraded = services.or_data_loss(page->degraded);
  if (!is_late) services.count_feed_page(page->degraded.has_value());
  co_return render(*page, *parsed, services.page_tokens);
}

}  // namespace freshet::handlers
