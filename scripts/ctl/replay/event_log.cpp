#include "scripts/ctl/replay/event_log.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "core/base/json.h"
#include "core/base/secret.h"
#include "scripts/ctl/replay/csv.h"

namespace freshet::ctl {
namespace {

tl::unexpected<Error> bad_line(std::size_t line, const std::string& why) {
  return fail(ErrorCode::kInvalid, "bad_log", {}, "line " + std::to_string(line) + ": " + why);
}

std::string describe(const Error& error) {
  return error.member.empty()
             ? error.detail
             : error.member + ": " + (error.detail.empty() ? std::string(error.reason) : error.detail);
}

void sort_by_time(std::vector<LogEvent>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const LogEvent& a, const LogEvent& b) { return a.at < b.at; });
}

// Calls `take` with the object of each nonempty line.
template <class Take>
Result<void> for_each_object(std::string_view ndjson, Take take) {
  json::Document document;
  std::string text;
  std::size_t line = 0;
  while (!ndjson.empty()) {
    const std::size_t end = std::min(ndjson.find('\n'), ndjson.size());
    text.assign(ndjson.substr(0, end));
    ndjson.remove_prefix(std::min(end + 1, ndjson.size()));
    ++line;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (auto ok = document.parse(text); !ok)
      return bad_line(line, ok.error().detail.empty() ? "invalid JSON" : ok.error().detail);
    if (!document.root().is_object()) return bad_line(line, "not an object");
    if (Result<void> ok = take(document.root()); !ok) return bad_line(line, describe(ok.error()));
  }
  return {};
}

constexpr std::size_t kMaxText = 4096;

Result<LogEvent> parse_event(json::Value object) {
  LogEvent event;
  FRESHET_TRY(at, json::optional_time(object, "at"));
  if (!*at) return fail(ErrorCode::kInvalid, "bad_time", "at", "missing");
  event.at = **at;
  FRESHET_TRY(item, json::id_text(object["item"], "item"));
  event.item = std::move(*item);
  FRESHET_TRY(user, json::id_text(object["user"], "user"));
  event.user = std::move(*user);
  if (!object["session"].is_missing()) {
    FRESHET_TRY(session, json::id_text(object["session"], "session"));
    event.session = std::move(*session);
  }
  if (!object["dwellMs"].is_missing()) {
    FRESHET_TRY(dwell, json::required_integer(object, "dwellMs", 0, kDwellCapMs));
    event.dwell_ms = *dwell;
  }
  auto type = json::optional_string(object, "type", kMaxText);
  auto agent = json::optional_string(object, "userAgent", kMaxText);
  if (!type) return tl::unexpected(type.error());
  if (!agent) return tl::unexpected(agent.error());
  event.type = type->value_or("");
  event.user_agent = agent->value_or("");
  return event;
}

Result<UnixSeconds> unix_field(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::kInvalid, "bad_time", "timestamp", "not an integer");
  }
  return from_unix(value, "timestamp");
}

// A header value must not hold line ends or other control characters.
void drop_control_characters(std::string& text) {
  std::erase_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

}  // namespace

Result<std::vector<LogEvent>> parse_events(std::string_view ndjson) {
  std::vector<LogEvent> events;
  auto ok = for_each_object(ndjson, [&](json::Value object) -> Result<void> {
    FRESHET_TRY(event, parse_event(object));
    drop_control_characters(event->user_agent);
    events.push_back(std::move(*event));
    return {};
  });
  if (!ok) return tl::unexpected(ok.error());
  sort_by_time(events);
  return events;
}

Result<std::vector<LogEvent>> parse_deskdrop(std::string_view csv) {
  CsvReader reader(csv);
  std::vector<std::string> fields;
  FRESHET_TRY(more, reader.next(fields));
  constexpr std::array kColumns{"timestamp", "eventType", "contentId", "personId", "sessionId", "userAgent"};
  std::array<std::size_t, kColumns.size()> column{};
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const auto found = std::find(fields.begin(), fields.end(), kColumns[i]);
    if (found == fields.end()) return bad_line(1, std::string("no column ") + kColumns[i]);
    column[i] = static_cast<std::size_t>(found - fields.begin());
  }
  const std::size_t width = fields.size();
  std::vector<LogEvent> events;
  while ((more = reader.next(fields))) {
    if (!*more) {
      sort_by_time(events);
      derive_dwell(events);
      return events;
    }
    if (fields.size() != width)
      return bad_line(reader.line(), "number of fields differs from the first line");
    auto at = unix_field(fields[column[0]]);
    if (!at) return bad_line(reader.line(), describe(at.error()));
    drop_control_characters(fields[column[5]]);
    events.push_back({*at, fields[column[1]], fields[column[2]], fields[column[3]], fields[column[4]],
                      fields[column[5]], 0});
  }
  return tl::unexpected(more.error());
}

Result<LogItems> parse_items(std::string_view ndjson) {
  LogItems items;
  auto ok = for_each_object(ndjson, [&](json::Value object) -> Result<void> {
    FRESHET_TRY(id, json::id_text(object["id"], "id"));
    FRESHET_TRY(published, json::optional_time(object, "published_at"));
    FRESHET_TRY(title, json::optional_string(object, "title", kMaxText));
    if (*published) items[*id] = {**published, title->value_or("")};
    return {};
  });
  if (!ok) return tl::unexpected(ok.error());
  return items;
}

void derive_dwell(std::vector<LogEvent>& events) {
  std::unordered_map<std::string_view, UnixSeconds> next_of_session;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    event->dwell_ms = 0;
    if (event->session.empty()) continue;
    const auto [next, first] = next_of_session.try_emplace(event->session, event->at);
    if (!first) {
      event->dwell_ms = std::min<std::int64_t>(milliseconds(next->second - event->at).count(), kDwellCapMs);
      next->second = event->at;
    }
  }
}

std::vector<LogEvent> filter_events(std::vector<LogEvent> events, const Selection& selection) {
  std::erase_if(events, [&](const LogEvent& each) {
    const auto& types = selection.types;
    return (selection.from && each.at < *selection.from) ||
           (selection.until && each.at >= *selection.until) ||
           (!types.empty() && std::find(types.begin(), types.end(), each.type) == types.end());
  });
  if (events.size() > selection.limit)
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(selection.limit), events.end());
  return events;
}

Result<std::string> read_file(const std::string& path) {
  auto text = read_whole_file(path);
  if (!text) return fail(ErrorCode::kNotFound, "no_file", {}, text.error().detail);
  return text;
}

Result<std::string> read_input(const std::string& path) {
  if (path != "-") return read_file(path);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (std::ferror(stdin) != 0) return fail(ErrorCode::kUnavailable, "no_stdin", {}, "cannot read stdin");
  return text;
}

Result<EventLog> read_log(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path file = path;
  bool deskdrop = false;
  if (fs::is_directory(file, ignored)) {
    deskdrop = fs::exists(file / "users_interactions.csv", ignored);
    file /= deskdrop ? "users_interactions.csv" : "events.ndjson";
  }
  FRESHET_TRY(text, read_file(file));
  auto events = deskdrop || file.extension() == ".csv" ? parse_deskdrop(*text) : parse_events(*text);
  if (!events)
    return fail(events.error().code, events.error().reason, {}, file.string() + ": " + events.error().detail);
  EventLog log{std::move(*events), {}};
  const fs::path items_path = file.parent_path() / "items.ndjson";
  if (fs::exists(items_path, ignored)) {
    text = read_file(items_path);
    if (!text) return tl::unexpected(text.error());
    auto items = parse_items(*text);
    if (!items)
      return fail(items.error().code, items.error().reason, {},
                  items_path.string() + ": " + items.error().detail);
    log.items = std::move(*items);
  }
  return log;
}

std::unordered_map<std::string, UnixSeconds> publish_times(const EventLog& log) {
  std::unordered_map<std::string, UnixSeconds> times;
  for (const auto& [id, item] : log.items) times.emplace(id, item.published);
  for (const LogEvent& each : log.events) times.try_emplace(each.item, each.at);
  return times;
}

}  // namespace freshet::ctl
