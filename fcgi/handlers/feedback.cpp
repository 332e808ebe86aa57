#include "fcgi/handlers/feedback.h"

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

struct Undo {
  ReaderId reader;  // as claimed by the request
  ItemId item;
};

// ?userId=&topicId=&kind= or, if there is a body, its members.
Result<Undo> parse_undo(Call& call, json::Document& document) {
  if (!call.request.body.empty()) {
    FRESHET_TRY(body, read_body(call, document));
    FRESHET_TRY(dismissal, parse_dismissal(*body));
    return Undo{std::move(dismissal->reader), std::move(dismissal->item)};
  }
  FRESHET_TRY(reader, http::id_parameter<ReaderId>(call.target, "userId"));
  FRESHET_TRY(item, ItemId::parse(call.target.parameter("topicId").value_or(""), "topicId"));
  if (call.target.parameter("kind").value_or("not_interested") != "not_interested")
    return fail(ErrorCode::kInvalid, "bad_kind", "kind", "must be not_interested");
  return Undo{std::move(*reader), std::move(*item)};
}

Response render(Services& services, const readers::RecordResult& recorded) {
  return recorded.queued ? queued_reply(services) : private_json("{\"ok\":true}");
}

}  // namespace

Task<Result<Response>> post_feedback(Call& call) {
  json::Document document;
  FRESHET_CO_TRY(body, read_body(call, document));
  FRESHET_CO_TRY(dismissal, parse_dismissal(*body));
  FRESHET_CO_TRY(reader, require_reader(call, dismissal->reader));
  dismissal->reader = std::move(*reader);
  if (!call.may_store(dismissal->reader)) co_return private_json(std::string(kNotStored));
  limit_event_id(call, dismissal->event, dismissal->event.view());
  dismissal->is_from_site = call.request.zone == Zone::kInternal;
  const auto recorded = co_await readers::dismiss(call.services.readers, *dismissal, call.must_spool());
  if (!recorded) co_return with_item_member(recorded.error(), "topicId");
  co_return render(call.services, *recorded);
}

Task<Result<Response>> delete_feedback(Call& call) {
  json::Document document;
  FRESHET_CO_TRY(undo, parse_undo(call, document));
  FRESHET_CO_TRY(reader, require_reader(call, undo->reader));
  if (!call.may_store(*reader)) co_return private_json(std::string(kNotStored));
  FRESHET_CO_TRY(recorded, co_await readers::undo_dismissal(call.services.readers, *reader, undo->item,
                                                            call.must_spool()));
  co_return render(call.services, *recorded);
}

}  // namespace freshet::handlers
