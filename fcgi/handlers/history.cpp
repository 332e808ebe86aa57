#include "fcgi/handlers/history.h"

#include "core/base/json.h"
#include "core/readers/reader_events.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/parse_readers.h"
#include "fcgi/handlers/queued.h"
#include "fcgi/handlers/read_body.h"
#include "fcgi/handlers/require_reader.h"

namespace freshet::handlers {

namespace {

constexpr std::string_view kOk = "{\"ok\":true}";

struct HistoryQuery {
  ReaderId reader;
  readers::ViewKind kind;
};

// ?userId=&kind=
Result<HistoryQuery> parse_history_query(const Call& call) {
  FRESHET_TRY(claimed, http::id_parameter<ReaderId>(call.target, "userId"));
  FRESHET_TRY(kind, parse_view_kind(call.target.parameter("kind")));
  FRESHET_TRY(reader, require_reader(call, *claimed));
  return HistoryQuery{std::move(*reader), *kind};
}

// `views`: null if Redis is unavailable.
std::string render(const std::vector<readers::ViewedItem>* views) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("items").begin_array();
  if (views) {
    for (const readers::ViewedItem& each : *views) writer.string(each.item.view());
  }
  writer.end_array();
  if (!views) writer.key("degraded").boolean(true);
  writer.end_object();
  return out;
}

Response degraded_history() {
  Response response = private_json(render(nullptr));
  response.headers += "Freshet-Degraded: true\r\n";
  return response;
}

}  // namespace

Task<Result<Response>> post_history(Call& call) {
  Services& services = call.services;
  json::Document document;
  FRESHET_CO_TRY(body, read_body(call, document));
  FRESHET_CO_TRY(view, parse_history(*body));
  if (call.is_bot()) {
    services.count_refusal(Refusal::kBot);
    co_return private_json(std::string(kNotStored));
  }
  FRESHET_CO_TRY(reader, require_reader(call, view->reader));
  view->reader = std::move(*reader);
  if (!call.may_store(view->reader)) co_return private_json(std::string(kNotStored));
  limit_event_id(call, view->event, view->event.view());
  view->is_from_site = call.request.zone == Zone::kInternal;
  const auto recorded = co_await readers::record_view(services.readers, *view, call.must_spool());
  if (!recorded) co_return with_item_member(recorded.error(), "topicId");
  if (recorded->queued) co_return queued_reply(services);
  co_return private_json(std::string(kOk));
}

Task<Result<Response>> get_history(Call& call) {
  FRESHET_CO_TRY(query, parse_history_query(call));
  call.request.on_deadline = degraded_history;
  const auto views = co_await call.services.readers.views(query->reader, query->kind);
  if (views) co_return private_json(render(&*views));
  if (!is_unavailable(views.error())) co_return tl::unexpected(views.error());
  co_return degraded_history();
}

Task<Result<Response>> delete_history(Call& call) {
  FRESHET_CO_TRY(query, parse_history_query(call));
  // Without an item everything goes, so an empty one is an error.
  ItemId item;
  if (const auto given = call.target.parameter("topicId")) {
    FRESHET_CO_TRY(parsed, ItemId::parse(*given, "topicId"));
    item = std::move(*parsed);
  }
  if (!call.may_store(query->reader)) co_return private_json(std::string(kNotStored));
  Services& services = call.services;
  auto removing =
      item.empty()
          ? readers::clear_views(services.readers, query->reader, query->kind, call.must_spool())
          : readers::remove_view(services.readers, query->reader, query->kind, item, call.must_spool());
  FRESHET_CO_TRY(cleared, co_await removing);
  if (cleared->queued) co_return queued_reply(call.services);
  co_return private_json(std::string(kOk));
}

Task<Result<Response>> post_history_merge(Call& call) {
  json::Document document;
  FRESHET_CO_TRY(body, read_body(call, document));
  FRESHET_CO_TRY(from, json::required_id<ReaderId>(*body, "from"));
  FRESHET_CO_TRY(to, json::required_id<ReaderId>(*body, "to"));
  FRESHET_CO_TRY(job, co_await call.services.users.request_merge(*from, *to));
  std::string out;
  json::Writer(out).begin_object().key("ok").boolean(true).key("job").string(*job).end_object();
  co_return private_json(std::move(out), 202);
}

}  // namespace freshet::handlers
