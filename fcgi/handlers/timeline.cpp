#include "fcgi/handlers/timeline.h"

#include <chrono>

#include "core/base/json.h"
#include "core/items/card_json.h"
#include "core/timeline/timelines.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse_timeline.h"
#include "fcgi/handlers/read_body.h"
#include "fcgi/handlers/reader_name.h"
#include "fcgi/handlers/reason_json.h"
#include "fcgi/handlers/require_reader.h"

namespace freshet::handlers {

namespace {

Response render(const timeline::ServedPage& served) {
  const timeline::TimelinePage& page = served.page;
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("items").begin_array();
  for (const timeline::TimelineEntry& each : page.items) {
    writer.begin_object();
    items::write_card(writer, each.item, *each.card);
    writer.key("score").integer(each.score);
    write_reason(writer, each.reason);
    writer.end_object();
  }
  writer.end_array().key("drop").integer(page.newest_score).key("up").integer(page.oldest_score);
  writer.key("has_more").boolean(page.has_more).key("newer").integer(page.newer_count);
  if (page.trimmed) writer.key("trimmed").boolean(true);
  if (served.degraded) writer.key("degraded").boolean(true);
  writer.end_object();
  Response response = private_json(std::move(out));
  if (served.degraded) response.headers += "Freshet-Degraded: true\r\n";
  return response;
}

void write_rejected(json::Writer& writer, const std::vector<timeline::RefusedItem>& rejected) {
  if (rejected.empty()) return;
  writer.key("rejected").begin_array();
  for (const timeline::RefusedItem& each : rejected)
    writer.begin_object().key("item").string(each.item.view()).key("code").string(each.code).end_object();
  writer.end_array();
}

Response render(const timeline::PushReport& outcome) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("pushed").integer(outcome.counts.pushed);
  writer.key("duplicates").integer(outcome.counts.duplicates);
  write_rejected(writer, outcome.refused);
  writer.end_object();
  return private_json(std::move(out));
}

Response render(timeline::PublishResult&& published) {
  if (published.job.empty()) return render(timeline::PushReport{{}, std::move(published.refused)});
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("job").string(published.job);
  write_rejected(writer, published.refused);
  writer.end_object();
  return private_json(std::move(out), 202);
}

// Outboxes and follows belong to one channel: in another one, unfollowing would remove nothing from
// a timeline.
std::string wrong_channel_detail(const Settings& settings) {
  const std::string& follows = settings.timeline.follow_channel;
  if (follows.empty())
    return "no channel for follows is configured (waterfall.follow_channel); send customers instead";
  return "only supported in the channel \"" + follows +
         "\" (waterfall.follow_channel); send customers in other channels";
}

Task<Result<Response>> publish(Call& call, const PushBody& body) {
  Services& services = call.services;
  if (call.match.parameters[0] != services.settings.timeline.follow_channel)
    co_return fail(ErrorCode::kInvalid, "bad_parameter", "followersOf",
                   wrong_channel_detail(services.settings));
  FRESHET_CO_TRY(published, co_await timeline::publish_items(services.timelines, services.items,
                                                             services.follows, body.author, body.items));
  co_return render(std::move(*published));
}

Task<Result<Response>> push(Call& call, PushBody& body) {
  using Clock = std::chrono::steady_clock;
  Services& services = call.services;
  const timeline::PushRequest push{call.match.parameters[0], std::move(body.items), std::move(body.readers)};
  const auto deadline = Clock::now() + services.settings.gateway.bulk_budget;
  const std::function<bool()> has_time_left = [deadline] { return Clock::now() < deadline; };
  FRESHET_CO_TRY(outcome,
                 co_await timeline::push_items(services.timelines, services.items, push, has_time_left));
  co_return render(*outcome);
}

// A reply as it is stored: its status, then its body.
std::string serialize_reply(const Response& response) {
  return std::to_string(response.status) + response.body;
}
Response replay_reply(const std::string& stored) {
  constexpr std::size_t kDigits = 3;
  return private_json(stored.substr(kDigits), stored.starts_with("202") ? 202 : 200);
}

}  // namespace

Task<Result<Response>> get_timeline(Call& call) {
  const std::string& channel = call.match.parameters[0];
  FRESHET_CO_TRY(checked, check_channel(channel, call.services.settings.timeline));
  FRESHET_CO_TRY(query, parse_page(call.target, channel));
  const auto name = reader_parameter(call.target, "customerId");
  FRESHET_CO_TRY(claimed, http::id_parameter<ReaderId>(call.target, name));
  FRESHET_CO_TRY(reader, require_reader(call, *claimed, name));
  query->reader = std::move(*reader);
  query->allow_writes = !call.must_spool();
  call.request.on_deadline = [&page_query = *query] { return render(timeline::degraded_page(page_query)); };
  const bool follows = channel == call.services.settings.timeline.follow_channel;
  FRESHET_CO_TRY(served, co_await timeline::read_page(call.services.timelines, *query, follows));
  const bool is_incomplete = follows && !query->allow_writes;  // items of pulled authors are left out
  served->degraded |= is_incomplete || call.services.has_lost_data();
  co_return render(*served);
}

Task<Result<Response>> post_timeline(Call& call) {
  Services& services = call.services;
  const std::string& channel = call.match.parameters[0];
  FRESHET_CO_TRY(checked, check_channel(channel, services.settings.timeline));
  json::Document document;
  FRESHET_CO_TRY(object, read_body(call, document, kPushLimits));
  FRESHET_CO_TRY(body, parse_push(*object));
  const EventId event = body->event;
  if (!event.empty()) {
    FRESHET_CO_TRY(stored, co_await services.timelines.load_reply(channel, event));
    if (*stored) co_return replay_reply(**stored);
  }
  auto task = body->author.empty() ? push(call, *body) : publish(call, *body);
  auto result = co_await task;
  if (!result || event.empty()) co_return result;
  // If a worker dies before this, the items are pushed, and repeating the push finds them in place.
  FRESHET_CO_TRY(saved, co_await services.timelines.store_reply(channel, event, serialize_reply(*result)));
  co_return result;
}

Task<Result<Response>> delete_timeline(Call& call) {
  const std::string& channel = call.match.parameters[0];
  FRESHET_CO_TRY(checked, check_channel(channel, call.services.settings.timeline));
  FRESHET_CO_TRY(item, ItemId::parse(call.match.parameters[1], "itemId"));
  const auto name = reader_parameter(call.target, "customerId");
  FRESHET_CO_TRY(reader, ReaderId::parse(call.target.parameter(name).value_or(""), name));
  FRESHET_CO_TRY(removed, co_await call.services.timelines.remove(channel, *reader, *item));
  co_return private_json(*removed ? "{\"removed\":1}" : "{\"removed\":0}");
}

}  // namespace freshet::handlers
