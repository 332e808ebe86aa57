#include "fcgi/handlers/parse_timeline.h"

#include <algorithm>
#include <array>

#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/reader_name.h"

namespace freshet::handlers {

namespace {

constexpr std::int64_t kDefaultPage = 5;
constexpr std::size_t kMaxItems = 100;
constexpr std::size_t kMaxCustomers = 10'000;

constexpr std::array kDirectionNames{EnumName<timeline::Direction>{"first", timeline::Direction::kFirst},
                                     EnumName<timeline::Direction>{"down", timeline::Direction::kNewer},
                                     EnumName<timeline::Direction>{"up", timeline::Direction::kOlder}};

bool is_absent(json::Value value) { return value.is_missing() || value.type() == json::Type::kNull; }

// An array of 1..max_count ids.
template <class IdType>
Result<std::vector<IdType>> parse_id_list(json::Value body, std::string_view member, std::size_t max_count) {
  if (is_absent(body[member]))
    return fail(ErrorCode::kInvalid, "bad_list", std::string(member), "is missing");
  const auto elements = body[member].elements();
  if (elements.empty() || elements.size() > max_count)
    return fail(ErrorCode::kInvalid, "bad_list", std::string(member),
                "must be an array of 1 to " + std::to_string(max_count) + " ids");
  std::vector<IdType> ids;
  ids.reserve(elements.size());
  for (const json::Value element : elements) {
    auto id = json::id_text(element, member).and_then([&](const std::string& text) -> Result<IdType> {
      if (is_unset_id<IdType>(text))
        return fail(ErrorCode::kInvalid, "bad_id", std::string(member), "names no one");
      return IdType::parse(text, member);
    });
    if (!id) {
      id.error().detail = "element " + std::to_string(ids.size() + 1) + ": " + id.error().detail;
      return tl::unexpected(id.error());
    }
    ids.push_back(std::move(*id));
  }
  return ids;
}

}  // namespace

Result<void> check_channel(std::string_view channel, const TimelineSettings& settings) {
  if (std::ranges::count(settings.channels, channel) > 0) return {};
  return fail(ErrorCode::kNotFound, "unknown_channel", "channel", "no channel of this name is configured");
}

Result<timeline::PageQuery> parse_page(const http::Target& target, std::string_view channel) {
  FRESHET_TRY(direction, parse_enum(kDirectionNames, "direction", target.parameter("direction"),
                                    std::optional(timeline::Direction::kFirst)));
  FRESHET_TRY(score, http::integer_parameter(target, "score", 0, 0, timeline::kScoreEnd - 1));
  if (*direction != timeline::Direction::kFirst && !target.parameter("score"))
    return fail(ErrorCode::kInvalid, "bad_number", "score",
                "down and up require the drop or up of a previous page");
  FRESHET_TRY(limit, http::integer_parameter(target, "limit", kDefaultPage, 1, kMaxLimit));
  return timeline::PageQuery{std::string(channel), {}, *direction, *score, static_cast<int>(*limit)};
}

Result<PushBody> parse_push(json::Value body) {
  FRESHET_TRY(items, parse_id_list<ItemId>(body, "items", kMaxItems));
  FRESHET_TRY(event, json::optional_id<EventId>(body, "eventId"));
  PushBody parsed;
  parsed.items = std::move(*items);
  parsed.event = std::move(*event);
  if (is_absent(body["customers"]) == is_absent(body["followersOf"]))
    return fail(ErrorCode::kInvalid, "bad_list", "customers", "send either customers or followersOf");
  if (!is_absent(body["followersOf"])) {
    FRESHET_TRY(author, json::required_id<AuthorId>(body, "followersOf"));
    parsed.author = std::move(*author);
    return parsed;
  }
  FRESHET_TRY(readers, parse_id_list<ReaderId>(body, "customers", kMaxCustomers));
  parsed.readers = std::move(*readers);
  return parsed;
}

Result<Follow> parse_follow(const http::Target& target) {
  const auto name = reader_parameter(target, "follower");
  FRESHET_TRY(follower, ReaderId::parse(target.parameter(name).value_or(""), name));
  FRESHET_TRY(author, AuthorId::parse(target.parameter("author").value_or(""), "author"));
  return Follow{std::move(*follower), std::move(*author)};
}

Result<Follow> parse_follow(json::Value body) {
  FRESHET_TRY(follower, json::required_id<ReaderId>(body, reader_member(body, "follower")));
  FRESHET_TRY(author, json::required_id<AuthorId>(body, "author"));
  return Follow{std::move(*follower), std::move(*author)};
}

}  // namespace freshet::handlers
