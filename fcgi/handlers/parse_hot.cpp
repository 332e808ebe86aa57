#include "fcgi/handlers/parse_hot.h"

#include "fcgi/handlers/card_json.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace freshet::handlers {

namespace {

constexpr std::size_t kMaxTags = 32;
constexpr std::size_t kMaxTitleBytes = 1024;
constexpr std::size_t kMaxTextBytes = 256 * 1024;
constexpr std::size_t kMaxUrlBytes = 2048;
constexpr seconds kMaxAhead{365 * 86400};
constexpr seconds kClockSlack{5};  // between the client's "now" and ours

template <class T>
struct Word {
  std::string_view text;
  T value;
};

constexpr std::array kModels{Word<hot::Model>{"views", hot::Model::kViews},
                             Word<hot::Model>{"engagement", hot::Model::kEngagement}};
constexpr std::array kModes{Word<hot::ViewsMode>{"accumulate", hot::ViewsMode::kAccumulate},
                            Word<hot::ViewsMode>{"current", hot::ViewsMode::kCurrent}};
constexpr std::array kWindows{Word<seconds>{"all", seconds(0)}, Word<seconds>{"24h", seconds(24 * 3600)},
                              Word<seconds>{"72h", seconds(72 * 3600)},
                              Word<seconds>{"7d", seconds(7 * 86400)}};

Result<UnixSeconds> required_time(json::Value body, std::string_view member) {
  const auto time = json::optional_time(body, member);
  if (!time) return tl::unexpected(time.error());
  if (!*time) return fail(ErrorCode::kInvalid, "bad_time", std::string(member), "is missing");
  return **time;
}

// The value of a parameter that is one of a few words; absent: `fallback`.
template <class T, std::size_t N>
Result<T> one_of(const http::Target& target, std::string_view name, const std::array<Word<T>, N>& words,
                 T fallback) {
  const auto given = target.parameter(name);
  if (!given) return fallback;
  for (const Word<T>& word : words) {
    if (word.text == *given) return word.value;
  }
  std::string allowed;
  for (const Word<T>& word : words) allowed.append(allowed.empty() ? "" : ", ").append(word.text);
  return fail(ErrorCode::kInvalid, "bad_parameter", std::string(name), "one of " + allowed);
}

Result<std::optional<UnixSeconds>> at_parameter(const http::Target& target, UnixSeconds now) {
  const auto given = target.parameter("at");
  if (!given) return std::optional<UnixSeconds>();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), number);
  const bool integral = error == std::errc() && end == given->data() + given->size();
  const auto at = integral ? from_unix(number, "at") : parse_rfc3339(*given, "at");
  if (!at) return tl::unexpected(at.error());
  if (*at < now - kClockSlack || *at > now + kMaxAhead) {
    return fail(ErrorCode::kInvalid, "bad_time", "at", "from now to 365 days ahead");
  }
  return std::optional(std::max(*at, now));
}

}  // namespace

Result<json::Value> read_object(json::Document& document, std::string& text) {
  const auto parsed = document.parse(text);
  if (!parsed) return tl::unexpected(parsed.error());
  return json::root_object(document);
}

Result<TrackBody> parse_track(json::Value body, std::int64_t dwell_cap_ms) {
  TrackBody parsed;
  auto item = json::required_id<ItemId>(body, "articleId");
  if (!item) return tl::unexpected(item.error());
  auto user = json::optional_id<ReaderId>(body, "userId");
  if (!user) return tl::unexpected(user.error());
  auto session = json::optional_id<SessionId>(body, "sessionId");
  if (!session) return tl::unexpected(session.error());
  auto fingerprint = json::optional_id<VisitorId>(body, "fingerprint");
  if (!fingerprint) return tl::unexpected(fingerprint.error());
  auto event = json::optional_id<EventId>(body, "eventId");
  if (!event) return tl::unexpected(event.error());
  const auto dwell = json::required_integer(body, "dwellMs", 0, INT64_MAX);
  if (!dwell) return tl::unexpected(dwell.error());
  const auto published = json::optional_time(body, "publishedAt");
  if (!published) return tl::unexpected(published.error());
  parsed.event.item = std::move(*item);
  parsed.event.session = std::move(*session);
  parsed.event.event = std::move(*event);
  parsed.event.dwell_ms = std::min(*dwell, dwell_cap_ms);
  parsed.event.published_at = *published;
  parsed.user = std::move(*user);
  parsed.fingerprint = fingerprint->str();
  return parsed;
}

Result<hot::ViewEvent> parse_view(json::Value body) {
  hot::ViewEvent event;
  auto item = json::required_id<ItemId>(body, "articleId");
  if (!item) return tl::unexpected(item.error());
  auto fingerprint = json::required_id<VisitorId>(body, "fingerprint");
  if (!fingerprint) return tl::unexpected(fingerprint.error());
  auto id = json::optional_id<EventId>(body, "eventId");
  if (!id) return tl::unexpected(id.error());
  const auto published = required_time(body, "publishedAt");
  if (!published) return tl::unexpected(published.error());
  event.item = std::move(*item);
  event.fingerprint = fingerprint->str();
  event.event = std::move(*id);
  event.published_at = *published;
  return event;
}

Result<HotRequest> parse_hot(const http::Target& target, UnixSeconds now) {
  HotRequest parsed;
  const auto model = one_of(target, "model", kModels, hot::Model::kViews);
  if (!model) return tl::unexpected(model.error());
  const auto mode = one_of(target, "mode", kModes, hot::ViewsMode::kAccumulate);
  if (!mode) return tl::unexpected(mode.error());
  const auto window = one_of(target, "window", kWindows, seconds(0));
  if (!window) return tl::unexpected(window.error());
  const bool views = *model == hot::Model::kViews;
  const auto limit = http::integer_parameter(target, "limit", views ? 10 : 20, 1, kMaxLimit);
  if (!limit) return tl::unexpected(limit.error());
  const auto at = at_parameter(target, now);
  if (!at) return tl::unexpected(at.error());
  if (views && *at) return fail(ErrorCode::kInvalid, "bad_parameter", "at", "only with model=engagement");
  if (!views && target.parameter("mode")) {
    return fail(ErrorCode::kInvalid, "bad_parameter", "mode", "only with model=views");
  }
  if (const auto tag = target.parameter("tag")) {
    auto name = TagName::parse(*tag, "tag");
    if (!name) return tl::unexpected(name.error());
    parsed.query.tag = std::move(*name);
  }
  parsed.query.model = *model;
  parsed.query.mode = *mode;
  parsed.query.window = *window;
  parsed.limit = static_cast<std::size_t>(*limit);
  parsed.at = *at;
  return parsed;
}

Result<std::vector<ItemId>> parse_ids(const http::Target& target) {
  const auto given = target.parameter("ids");
  if (!given || given->empty())
    return fail(ErrorCode::kInvalid, "bad_parameter", "ids", "1 to 100 ids, comma between");
  std::vector<ItemId> ids;
  std::string_view rest = *given;
  for (;;) {
    const std::size_t comma = rest.find(',');
    auto id = ItemId::parse(rest.substr(0, comma), "ids");
    if (!id) return tl::unexpected(id.error());
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(std::move(*id));
    if (ids.size() > kMaxLimit) return fail(ErrorCode::kInvalid, "bad_parameter", "ids", "at most 100 ids");
    if (comma == std::string_view::npos) return ids;
    rest.remove_prefix(comma + 1);
  }
}

namespace {

// True iff a browser would take `url` for one of another scheme than http and https, as javascript:. Browsers
// drop control characters and blanks before the scheme, tabs and line ends wherever they are.
bool has_foreign_scheme(std::string_view url) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string scheme;
  for (const char c : url) {
    if (c == '\t' || c == '\n' || c == '\r') continue;
    if (scheme.empty() && static_cast<unsigned char>(c) <= ' ') continue;
    if (c == ':') return !scheme.empty() && scheme != "http" && scheme != "https";
    const bool fits = is_letter(c) || (!scheme.empty() &&
                                       std::string_view("0123456789+-.").find(c) != std::string_view::npos);
    if (!fits) return false;
    scheme += is_letter(c) ? static_cast<char>(c | 0x20) : c;
  }
  return false;
}

}  // namespace

Result<items::Item> parse_item(json::Value body, const ItemId& id, UnixSeconds now) {
  items::Item item;
  item.id = id;
  auto title = json::required_string(body, "title", kMaxTitleBytes);
  if (!title) return tl::unexpected(title.error());
  auto text = json::optional_string(body, "text", kMaxTextBytes);
  if (!text) return tl::unexpected(text.error());
  auto url = json::optional_string(body, "url", kMaxUrlBytes);
  if (!url) return tl::unexpected(url.error());
  if (*url && has_foreign_scheme(**url))
    return fail(ErrorCode::kInvalid, "bad_url", "url", "of http or https, or relative");
  auto author = json::optional_string(body, "author", kMaxIdBytes);
  if (!author) return tl::unexpected(author.error());
  const auto tags = json::optional_strings(body, "tags", kMaxTags, kMaxIdBytes);
  if (!tags) return tl::unexpected(tags.error());
  for (const std::string& tag : *tags) {
    auto name = TagName::parse(tag, "tags");
    if (!name) return tl::unexpected(name.error());
    if (std::find(item.tags.begin(), item.tags.end(), *name) == item.tags.end())
      item.tags.push_back(std::move(*name));
  }
  const auto published = required_time(body, "published_at");
  if (!published) return tl::unexpected(published.error());
  const auto updated = json::optional_time(body, "update_time");
  if (!updated) return tl::unexpected(updated.error());
  const auto hidden = json::optional_boolean(body, "hidden", false);
  if (!hidden) return tl::unexpected(hidden.error());
  item.title = std::move(*title);
  item.text = std::move(*text).value_or("");
  item.url = std::move(*url).value_or("");
  item.author = std::move(*author).value_or("");
  item.published_at = *published;
  if (*updated) item.update_time = std::min(**updated, now);
  item.hidden = *hidden;
  return item;
}

}  // namespace freshet::handlers
