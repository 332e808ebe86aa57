#include "fcgi/handlers/parse_readers.h"

namespace freshet::handlers {

namespace {

constexpr seconds kMaxClockAhead{86400};  // beyond this it is no clock that is a little fast
constexpr std::size_t kMaxReasonBytes = 200;
constexpr std::string_view kNotInterested = "not_interested";

// A member that is one of a few words: its text, "" when it is no string; absent or null: nullopt.
std::optional<std::string_view> word(json::Value value) {
  if (value.missing() || value.kind() == json::Kind::kNull) return std::nullopt;
  return value.is_string() ? value.text() : std::string_view();
}

tl::unexpected<Error> bad_kind(std::string allowed, bool missing = false) {
  return fail(ErrorCode::kInvalid, "bad_kind", "kind", (missing ? "is missing: " : "") + std::move(allowed));
}

}  // namespace

Result<readers::ViewKind> view_kind(const std::optional<std::string_view>& name) {
  if (!name || *name == "topic") return readers::ViewKind::kTopic;
  if (*name == "reply") return readers::ViewKind::kReply;
  return bad_kind("topic or reply");
}

Result<readers::View> parse_history(json::Value body) {
  auto reader = json::optional_id<ReaderId>(body, "userId");
  if (!reader) return tl::unexpected(reader.error());
  auto item = json::required_id<ItemId>(body, "topicId");
  if (!item) return tl::unexpected(item.error());
  const auto kind = view_kind(word(body["kind"]));
  if (!kind) return tl::unexpected(kind.error());
  auto event = json::optional_id<EventId>(body, "eventId");
  if (!event) return tl::unexpected(event.error());
  return readers::View{std::move(*reader), std::move(*item), *kind, std::move(*event)};
}

Result<readers::ReaderEvent> parse_interaction(json::Value body, UnixSeconds now) {
  auto reader = json::required_id<ReaderId>(body, "userId");
  if (!reader) return tl::unexpected(reader.error());
  auto item = json::required_id<ItemId>(body, "topicId");
  if (!item) return tl::unexpected(item.error());
  const auto name = word(body["kind"]);
  const auto kind = readers::interaction_named(name.value_or(""));
  if (!kind || *kind == readers::Interaction::kView)
    return bad_kind("one of post, reply, like, favorite, share", !name);
  const auto at = json::optional_time(body, "at");
  if (!at) return tl::unexpected(at.error());
  if (*at && **at > now + kMaxClockAhead)
    return fail(ErrorCode::kInvalid, "bad_time", "at", "more than a day ahead");
  auto event = json::optional_id<EventId>(body, "eventId");
  if (!event) return tl::unexpected(event.error());
  return readers::ReaderEvent{std::move(*reader), std::move(*item), *kind, at->value_or(UnixSeconds::max()),
                              std::move(*event)};
}

Result<readers::Dismissal> parse_dismissal(json::Value body) {
  auto reader = json::optional_id<ReaderId>(body, "userId");
  if (!reader) return tl::unexpected(reader.error());
  auto item = json::required_id<ItemId>(body, "topicId");
  if (!item) return tl::unexpected(item.error());
  if (const auto name = word(body["kind"]); name != kNotInterested) return bad_kind("not_interested", !name);
  auto reason = json::optional_string(body, "reason", kMaxReasonBytes);
  if (!reason) return tl::unexpected(reason.error());
  auto event = json::optional_id<EventId>(body, "eventId");
  if (!event) return tl::unexpected(event.error());
  return readers::Dismissal{std::move(*reader), std::move(*item), std::move(*reason).value_or(""),
                            std::move(*event)};
}

}  // namespace freshet::handlers
