#include "fcgi/handlers/feedback.h"

#include "core/base/json.h"
#include "core/readers/reader_events.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse_hot.h"
#include "fcgi/handlers/parse_readers.h"
#include "fcgi/handlers/queued.h"
#include "fcgi/handlers/whose.h"

namespace freshet::handlers {

namespace {

struct Undo {
  ReaderId reader;  // as claimed
  ItemId item;
};

// ?userId=&topicId=&kind=; or, when there is a body, its members.
Result<Undo> parse_undo(Call& call, json::Document& document) {
  if (!call.request.body.empty()) {
    const auto body = read_object(document, call.request.body);
    if (!body) return tl::unexpected(body.error());
    auto dismissal = parse_dismissal(*body);
    if (!dismissal) return tl::unexpected(dismissal.error());
    return Undo{std::move(dismissal->reader), std::move(dismissal->item)};
  }
  auto reader = http::id_parameter<ReaderId>(call.target, "userId");
  if (!reader) return tl::unexpected(reader.error());
  auto item = ItemId::parse(call.target.parameter("topicId").value_or(""), "topicId");
  if (!item) return tl::unexpected(item.error());
  if (call.target.parameter("kind").value_or("not_interested") != "not_interested")
    return fail(ErrorCode::kInvalid, "bad_kind", "kind", "not_interested");
  return Undo{std::move(*reader), std::move(*item)};
}

Response render(Services& services, const readers::Recorded& recorded) {
  return recorded.queued ? queued_reply(services) : private_json("{\"ok\":true}");
}

}  // namespace

Task<Result<Response>> post_feedback(Call& call) {
  json::Document document;
  const auto body = read_object(document, call.request.body);
  if (!body) co_return tl::unexpected(body.error());
  auto dismissal = parse_dismissal(*body);
  if (!dismissal) co_return tl::unexpected(dismissal.error());
  auto reader = whose(call, dismissal->reader);
  if (!reader) co_return tl::unexpected(reader.error());
  dismissal->reader = std::move(*reader);
  const auto recorded = co_await readers::dismiss(call.services.readers, *dismissal, call.writes_later());
  if (!recorded) co_return tl::unexpected(recorded.error());
  co_return render(call.services, *recorded);
}

Task<Result<Response>> delete_feedback(Call& call) {
  json::Document document;
  const auto undo = parse_undo(call, document);
  if (!undo) co_return tl::unexpected(undo.error());
  const auto reader = whose(call, undo->reader);
  if (!reader) co_return tl::unexpected(reader.error());
  const auto recorded =
      co_await readers::undo_dismissal(call.services.readers, *reader, undo->item, call.writes_later());
  if (!recorded) co_return tl::unexpected(recorded.error());
  co_return render(call.services, *recorded);
}

}  // namespace freshet::handlers
