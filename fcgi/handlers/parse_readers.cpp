#include "fcgi/handlers/parse_readers.h"

#include <array>

#include "fcgi/handlers/parse.h"

namespace freshet::handlers {

namespace {

constexpr seconds kMaxClockAhead{86400};  // tolerated clock skew
constexpr std::size_t kMaxReasonBytes = 200;
constexpr std::string_view kNotInterested = "not_interested";

constexpr std::array kViewKindNames{EnumName<readers::ViewKind>{"topic", readers::ViewKind::kTopic},
                                    EnumName<readers::ViewKind>{"reply", readers::ViewKind::kReply}};

tl::unexpected<Error> bad_kind(std::string allowed, bool missing) {
  return fail(ErrorCode::kInvalid, "bad_kind", "kind", (missing ? "is missing: " : "") + std::move(allowed));
}

}  // namespace

Result<readers::ViewKind> parse_view_kind(const std::optional<std::string_view>& name) {
  return parse_enum(kViewKindNames, "kind", name, std::optional(readers::ViewKind::kTopic), "bad_kind");
}

Result<readers::View> parse_history(json::Value body) {
  FRESHET_TRY(reader, json::optional_id<ReaderId>(body, "userId"));
  FRESHET_TRY(item, json::required_id<ItemId>(body, "topicId"));
  FRESHET_TRY(kind, parse_view_kind(enum_member(body, "kind")));
  FRESHET_TRY(event, json::optional_id<EventId>(body, "eventId"));
  return readers::View{std::move(*reader), std::move(*item), *kind, std::move(*event)};
}

Result<readers::ReaderEvent> parse_interaction(json::Value body, UnixSeconds now) {
  FRESHET_TRY(reader, json::required_id<ReaderId>(body, "userId"));
  FRESHET_TRY(item, json::required_id<ItemId>(body, "topicId"));
  const auto name = enum_member(body, "kind");
  const auto kind = readers::parse_interaction(name.value_or(""));
  if (!kind || *kind == readers::Interaction::kView)
    return bad_kind("one of post, reply, like, favorite, share", !name);
  FRESHET_TRY(at, json::optional_time(body, "at"));
  if (*at && **at > now + kMaxClockAhead)
    return fail(ErrorCode::kInvalid, "bad_time", "at", "must not be more than a day ahead");
  FRESHET_TRY(event, json::optional_id<EventId>(body, "eventId"));
  return readers::ReaderEvent{std::move(*reader), std::move(*item), *kind, at->value_or(UnixSeconds::max()),
                              std::move(*event)};
}

Result<readers::Dismissal> parse_dismissal(json::Value body) {
  FRESHET_TRY(reader, json::optional_id<ReaderId>(body, "userId"));
  FRESHET_TRY(item, json::required_id<ItemId>(body, "topicId"));
  if (const auto name = enum_member(body, "kind"); name != kNotInterested)
    return bad_kind("not_interested", !name);
  FRESHET_TRY(reason, json::optional_string(body, "reason", kMaxReasonBytes));
  FRESHET_TRY(event, json::optional_id<EventId>(body, "eventId"));
  return readers::Dismissal{std::move(*reader), std::move(*item), std::move(*reason).value_or(""),
                            std::move(*event)};
}

}  // namespace freshet::handlers
