#include "fcgi/handlers/parse_hot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>

#include "core/base/utf8.h"
#include "core/items/item_limits.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/served_list.h"

namespace freshet::handlers {

namespace {

constexpr seconds kMaxTimeAhead{365 * 86400};
constexpr seconds kMaxTimePast{14 * 86400};  // how long counts of views are kept
constexpr seconds kClockSlack{5};            // between the client's clock and ours

constexpr auto kModelNames = [] {
  std::array<EnumName<const hot::Model*>, hot::kModels.size()> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = {hot::kModels[i].name, &hot::kModels[i]};
  return words;
}();
constexpr std::array kModeNames{EnumName<hot::ViewsMode>{"accumulate", hot::ViewsMode::kAccumulate},
                                EnumName<hot::ViewsMode>{"current", hot::ViewsMode::kCurrent}};
constexpr std::array kWindowNames{
    EnumName<seconds>{"all", seconds(0)}, EnumName<seconds>{"24h", seconds(24 * 3600)},
    EnumName<seconds>{"72h", seconds(72 * 3600)}, EnumName<seconds>{"7d", seconds(7 * 86400)}};

Result<UnixSeconds> required_time(json::Value body, std::string_view member) {
  FRESHET_TRY(time, json::optional_time(body, member));
  if (!*time) return fail(ErrorCode::kInvalid, "bad_time", std::string(member), "is missing or a zero date");
  return **time;
}

Result<std::optional<UnixSeconds>> at_parameter(const http::Target& target, UnixSeconds now,
                                                PastMoments past) {
  const auto given = target.parameter("at");
  if (!given) return std::optional<UnixSeconds>();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), number);
  const bool integral = error == std::errc() && end == given->data() + given->size();
  FRESHET_TRY(at, integral ? from_unix(number, "at").map([](UnixSeconds time) { return std::optional(time); })
                           : parse_date(*given, "at"));
  if (!*at) return fail(ErrorCode::kInvalid, "bad_time", "at", "is a zero date");
  const bool accepts_past = past == PastMoments::kAccept;
  if (**at < now - (accepts_past ? kMaxTimePast : kClockSlack) || **at > now + kMaxTimeAhead) {
    return fail(ErrorCode::kInvalid, "bad_time", "at",
                accepts_past ? "must be between 14 days ago and 365 days ahead"
                             : "must be between now and 365 days ahead");
  }
  return std::optional(**at < now - kClockSlack ? **at : std::max(**at, now));
}

}  // namespace

Result<TrackBody> parse_track(json::Value body, std::int64_t dwell_cap_ms) {
  TrackBody parsed;
  FRESHET_TRY(item, json::required_id<ItemId>(body, "articleId"));
  FRESHET_TRY(user, json::optional_id<ReaderId>(body, "userId"));
  FRESHET_TRY(session, json::optional_id<SessionId>(body, "sessionId"));
  FRESHET_TRY(fingerprint, json::optional_id<VisitorId>(body, "fingerprint"));
  FRESHET_TRY(event, json::optional_id<EventId>(body, "eventId"));
  FRESHET_TRY(dwell, json::required_rounded(body, "dwellMs", 0, INT64_MAX));
  FRESHET_TRY(published, json::optional_time(body, "publishedAt"));
  parsed.event.item = std::move(*item);
  parsed.event.session = std::move(*session);
  parsed.event.event_id = std::move(*event);
  parsed.event.dwell_ms = std::min(*dwell, dwell_cap_ms);
  parsed.event.published_at = *published;
  parsed.claimed_reader = std::move(*user);
  parsed.fingerprint = fingerprint->str();
  return parsed;
}

Result<hot::ViewEvent> parse_view(json::Value body) {
  hot::ViewEvent event;
  FRESHET_TRY(item, json::required_id<ItemId>(body, "articleId"));
  FRESHET_TRY(fingerprint, json::required_id<VisitorId>(body, "fingerprint"));
  FRESHET_TRY(id, json::optional_id<EventId>(body, "eventId"));
  FRESHET_TRY(published, required_time(body, "publishedAt"));
  event.item = std::move(*item);
  event.fingerprint = fingerprint->str();
  event.event_id = std::move(*id);
  event.published_at = *published;
  return event;
}

Result<HotListRequest> parse_hot(const http::Target& target, UnixSeconds now, const Settings& settings,
                                 PastMoments past) {
  HotListRequest parsed;
  const hot::Model* default_model =
      target.parameter("mode") ? &hot::kViewsModel : default_list(settings).model;
  FRESHET_TRY(model,
              parse_enum(kModelNames, "model", target.parameter("model"), std::optional(default_model)));
  const bool is_current = *model == &hot::kViewsModel && settings.views_default_mode == "current";
  FRESHET_TRY(mode,
              parse_enum(kModeNames, "mode", target.parameter("mode"),
                         std::optional(is_current ? hot::ViewsMode::kCurrent : hot::ViewsMode::kAccumulate)));
  FRESHET_TRY(window,
              parse_enum(kWindowNames, "window", target.parameter("window"), std::optional(seconds(0))));
  const hot::Model& requested_model = **model;
  FRESHET_TRY(limit, http::integer_parameter(target, "limit", requested_model.default_limit, 1, kMaxLimit));
  FRESHET_TRY(at, at_parameter(target, now, past));
  parsed.is_past = *at && **at < now;
  const std::string not_with = "not supported with model=" + std::string(requested_model.name);
  if (!requested_model.is_computed() && *at && !parsed.is_past)
    return fail(ErrorCode::kInvalid, "bad_parameter", "at", not_with);
  if (requested_model.is_computed() && target.parameter("mode"))
    return fail(ErrorCode::kInvalid, "bad_parameter", "mode", not_with);
  if (const auto tag = target.parameter("tag")) {
    FRESHET_TRY(name, TagName::parse(*tag, "tag"));
    parsed.query.tag = TagName::trusted(utf8::fold(name->view()));
  }
  parsed.query.model = &requested_model;
  parsed.query.mode = *mode;
  parsed.query.window = *window;
  parsed.limit = static_cast<std::size_t>(*limit);
  parsed.at = *at;
  return parsed;
}

Result<std::vector<ItemId>> parse_ids(const http::Target& target) {
  std::vector<ItemId> ids;
  const auto add = [&ids](std::string_view text, std::string_view member) -> Result<void> {
    FRESHET_TRY(id, ItemId::parse(text, member));
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(std::move(*id));
    if (ids.size() > kMaxLimit)
      return fail(ErrorCode::kInvalid, "bad_parameter", std::string(member), "at most 100 ids");
    return {};
  };
  const std::string_view list = target.parameter("ids").value_or("");
  for (std::size_t begin = 0; !list.empty() && begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (auto ok = add(list.substr(begin, end - begin), "ids"); !ok) return tl::unexpected(ok.error());
    begin = end + 1;
  }
  for (const auto& [name, value] : target.parameters()) {
    if (name != "id") continue;
    if (auto ok = add(value, name); !ok) return tl::unexpected(ok.error());
  }
  if (ids.empty())
    return fail(ErrorCode::kInvalid, "bad_parameter", "ids",
                "1 to 100 ids are required, as id=a&id=b or ids=a,b");
  return ids;
}

namespace {

// True if a browser would take `url` to have a scheme other than http and https, such as
// javascript:. Browsers drop control characters and spaces before the scheme, and tabs and line
// breaks anywhere.
bool has_unsafe_scheme(std::string_view url) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string scheme;
  for (const char c : url) {
    if (c == '\t' || c == '\n' || c == '\r') continue;
    if (scheme.empty() && static_cast<unsigned char>(c) <= ' ') continue;
    if (c == ':') return !scheme.empty() && scheme != "http" && scheme != "https";
    const bool is_scheme_char =
        is_letter(c) ||
        (!scheme.empty() && std::string_view("0123456789+-.").find(c) != std::string_view::npos);
    if (!is_scheme_char) return false;
    scheme += is_letter(c) ? static_cast<char>(c | 0x20) : c;
  }
  return false;
}

constexpr bool is_tab_or_line_break(char32_t c) {
  return c == '\t' || c == '\r' || c == '\n' || c == 0x2028 || c == 0x2029;
}

// Replaces each run of tabs and line breaks by one space. Error: "bad_string" if the text has other
// control characters.
Result<std::string> to_one_line(std::string_view text, std::string_view member) {
  std::string line;
  bool follows_break = false;
  for (std::size_t at = 0; at < text.size();) {
    const utf8::CodePoint c = utf8::decode(text, at);
    const bool is_break = is_tab_or_line_break(c.value);
    if (!is_break && utf8::is_control(c.value))
      return fail(ErrorCode::kInvalid, "bad_string", std::string(member),
                  "must not contain control characters");
    if (!is_break) line.append(text, at, c.size);
    if (is_break && !follows_break) line += ' ';
    follows_break = is_break;
    at += c.size;
  }
  return line;
}

Result<std::string> parse_section(json::Value body) {
  constexpr std::size_t kMaxLetterBytes = 4;
  FRESHET_TRY(text, json::optional_string(body, "section", kMaxLetterBytes * items::kMaxSectionLetters));
  FRESHET_TRY(line, to_one_line(text->value_or(""), "section"));
  if (utf8::length(*line) <= items::kMaxSectionLetters) return line;
  return fail(ErrorCode::kInvalid, "bad_string", "section",
              "longer than " + std::to_string(items::kMaxSectionLetters) + " characters");
}

Result<std::string> parse_language(json::Value body) {
  FRESHET_TRY(text, json::optional_string(body, "language", items::kMaxLanguageBytes));
  if (!*text || (*text)->empty()) return std::string();
  if (items::is_language_tag(**text)) return std::move(**text);
  return fail(ErrorCode::kInvalid, "bad_string", "language",
              "not a language tag (BCP 47) such as en, pt-BR or zh-Hant");
}

Result<items::TextFormat> parse_text_format(json::Value body) {
  FRESHET_TRY(name, json::optional_string(body, "text_format", kMaxIdBytes));
  if (!*name || (*name)->empty()) return items::TextFormat::kPlain;
  if (const auto format = items::text_format_of(**name)) return *format;
  return fail(ErrorCode::kInvalid, "bad_string", "text_format", "one of plain, html, markdown");
}

Result<std::optional<double>> parse_weight(json::Value body) {
  const json::Value value = body["weight"];
  if (value.is_missing() || value.type() == json::Type::kNull) return std::nullopt;
  const auto number = value.number();
  if (number && *number >= 0 && *number <= items::kMaxWeight) return number;
  return fail(ErrorCode::kInvalid, "bad_number", "weight", "not a number in 0..10");
}

// Keeps the first of several tags with the same key.
Result<std::vector<TagName>> parse_tags(json::Value body) {
  FRESHET_TRY(texts, json::optional_strings(body, "tags", items::kMaxTags, items::kMaxTagsBytes));
  std::vector<TagName> out;
  std::unordered_set<std::string> keys;
  std::size_t bytes = 0;
  for (const std::string& text : *texts) {
    FRESHET_TRY(tag, TagName::parse(text, "tags"));
    if (!keys.insert(utf8::fold(tag->view())).second) continue;
    bytes += tag->view().size();
    out.push_back(std::move(*tag));
  }
  if (bytes > items::kMaxTagsBytes)
    return fail(ErrorCode::kInvalid, "bad_list", "tags",
                "longer than " + std::to_string(items::kMaxTagsBytes) + " bytes together");
  return out;
}

// As it was put: in Normalization Form C. It must have a key.
Result<std::string> parse_author_id(json::Value body) {
  FRESHET_TRY(id, json::optional_id<ReaderId>(body, "author_id"));  // authors are often readers
  if (id->empty()) return std::string();
  FRESHET_TRY(key, AuthorId::parse(id->view(), "author_id"));
  return id->str();
}

// The name is kept as it was put, in one line. Readers can follow it under that name, so it must
// have a key unless the author has an id. A name that consists of white space and invisible
// characters is none.
Result<std::string> parse_author_name(json::Value body, const std::string& author_id) {
  FRESHET_TRY(text, json::optional_string(body, "author", kMaxIdBytes));
  FRESHET_TRY(line, to_one_line(text->value_or(""), "author"));
  std::string buffer;
  if (author_key({}, *line, buffer).empty()) return std::string();
  if (!author_id.empty()) return line;
  FRESHET_TRY(key, AuthorId::parse(*line, "author"));
  return line;
}

}  // namespace

Result<items::Item> parse_item(json::Value body, const ItemId& id, UnixSeconds now) {
  items::Item item;
  item.id = id;
  FRESHET_TRY(title, json::required_string(body, "title", items::kMaxTitleBytes));
  FRESHET_TRY(text, json::optional_string(body, "text", items::kMaxTextBytes));
  FRESHET_TRY(url, json::optional_string(body, "url", items::kMaxUrlBytes));
  if (*url && has_unsafe_scheme(**url))
    return fail(ErrorCode::kInvalid, "bad_url", "url", "must be http, https or relative");
  FRESHET_TRY(title_line, to_one_line(*title, "title"));
  FRESHET_TRY(author_id, parse_author_id(body));
  FRESHET_TRY(author, parse_author_name(body, *author_id));
  FRESHET_TRY(tags, parse_tags(body));
  FRESHET_TRY(published, required_time(body, "published_at"));
  FRESHET_TRY(updated, json::optional_time(body, "update_time"));
  FRESHET_TRY(hidden, json::optional_boolean(body, "hidden", false));
  FRESHET_TRY(section, parse_section(body));
  FRESHET_TRY(language, parse_language(body));
  FRESHET_TRY(story, json::optional_id<items::StoryId>(body, "story"));
  FRESHET_TRY(format, parse_text_format(body));
  FRESHET_TRY(expires, json::optional_time(body, "expires_at"));
  if (*expires && **expires <= *published)
    return fail(ErrorCode::kInvalid, "bad_time", "expires_at", "must be after published_at");
  FRESHET_TRY(weight, parse_weight(body));
  item.title = std::move(*title_line);
  item.text = std::move(*text).value_or("");
  item.url = std::move(*url).value_or("");
  item.author = std::move(*author);
  item.author_id = std::move(*author_id);
  item.tags = std::move(*tags);
  item.published_at = *published;
  if (*updated) item.update_time = std::min(**updated, now);
  item.hidden = *hidden;
  item.section = std::move(*section);
  item.language = std::move(*language);
  item.story = std::move(*story);
  item.text_format = *format;
  item.expires_at = *expires;
  item.weight = *weight;
  return item;
}

}  // namespace freshet::handlers
