#include "fcgi/handlers/interactions.h"

#include <strings.h>

#include <algorithm>

#include "core/base/json.h"
#include "core/readers/reader_events.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/ndjson.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/parse_readers.h"

namespace freshet::handlers {

namespace {

constexpr std::size_t kChunk = 500;  // events per pipeline; the time budget is checked in between
constexpr std::string_view kNdjsonType = "application/x-ndjson";

struct NumberedEvents {
  std::vector<readers::ReaderEvent> events;
  std::vector<std::size_t> lines;  // the line number of each event
};

struct ImportResult {
  std::size_t accepted = 0;
  std::size_t queued = 0;  // accepted, but queued in the spool
  std::vector<RejectedLine> rejected;
  http::IgnoredMembers ignored;
  std::optional<Error> unavailable;  // why a valid line was rejected
};

bool is_ndjson_type(std::string_view type) {
  return type.size() >= kNdjsonType.size() &&
         strncasecmp(type.data(), kNdjsonType.data(), kNdjsonType.size()) == 0;
}

Result<readers::ReaderEvent> parse_line(std::string& text, UnixSeconds now, std::string_view known_members,
                                        http::IgnoredMembers& ignored) {
  json::Document document;
  FRESHET_TRY(body, read_object(document, text));
  FRESHET_TRY(event, parse_interaction(*body, now));
  http::count_ignored_members(*body, known_members, ignored);
  return event;
}

// The next valid events, at most kChunk. Adds invalid lines and ignored members to `result`.
NumberedEvents next_chunk(NdjsonReader& lines, UnixSeconds now, std::string_view known_members,
                          ImportResult& result) {
  NumberedEvents out;
  while (out.events.size() < kChunk) {
    auto line = lines.next();
    if (!line) break;
    auto event = parse_line(line->text, now, known_members, result.ignored);
    if (!event) {
      result.rejected.push_back({line->number, event.error()});
      continue;
    }
    out.events.push_back(std::move(*event));
    out.lines.push_back(line->number);
  }
  return out;
}

void add_results(ImportResult& result, const NumberedEvents& chunk,
                 const std::vector<Result<readers::RecordResult>>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]) {
      ++result.accepted;
      result.queued += answers[i]->queued ? 1U : 0U;
      continue;
    }
    if (is_unavailable(answers[i].error())) result.unavailable = answers[i].error();
    result.rejected.push_back({chunk.lines[i], with_item_member(answers[i].error(), "topicId").value()});
  }
}

Result<Response> render(Services& services, ImportResult& result) {
  if (result.accepted == 0 && result.unavailable) return tl::unexpected(*result.unavailable);
  std::sort(result.rejected.begin(), result.rejected.end(),
            [](const RejectedLine& a, const RejectedLine& b) { return a.line < b.line; });
  services.slot.queued_writes.fetch_add(result.queued, std::memory_order_relaxed);
  const bool queued = result.queued > 0;
  return private_json(ndjson_reply(result.accepted, result.rejected, result.ignored, queued),
                      queued ? 202 : 200);
}

Task<Result<Response>> post_lines(Call& call) {
  NdjsonReader lines(call.request.body);
  ImportResult result;
  const UnixSeconds now = wall_now();
  const auto deadline = std::chrono::steady_clock::now() + call.services.settings.gateway.bulk_budget;
  for (;;) {
    const NumberedEvents chunk = next_chunk(lines, now, call.known_members, result);
    if (chunk.events.empty()) break;
    if (std::chrono::steady_clock::now() > deadline) co_return fail(ErrorCode::kUnavailable, "budget");
    const auto answers = co_await readers::record_interactions(call.services.readers_bulk, chunk.events);
    add_results(result, chunk, answers);
  }
  co_return render(call.services, result);
}

Task<Result<Response>> post_one(Call& call, json::Value body) {
  FRESHET_CO_TRY(event, parse_interaction(body, wall_now()));
  const auto recorded = co_await readers::record_interaction(call.services.readers, *event);
  if (!recorded) co_return with_item_member(recorded.error(), "topicId");
  ImportResult result;
  result.accepted = 1;
  result.queued = recorded->queued ? 1U : 0U;
  co_return render(call.services, result);
}

}  // namespace

Task<Result<Response>> post_interactions(Call& call) {
  std::string& body = call.request.body;
  // A single event is never larger. Parses a copy, because parsing modifies the text.
  const bool may_be_one = !is_ndjson_type(call.request.content_type) &&
                          body.size() <= call.services.settings.gateway.max_body_bytes;
  if (may_be_one) {
    std::string text = body;
    json::Document document;
    const auto parsed = document.parse(text);
    NdjsonReader lines(body);
    const bool has_several_lines = lines.next() && lines.next();
    if (parsed || !has_several_lines) {
      const auto object = parsed.and_then([&] { return json::root_object(document); });
      if (!object) co_return tl::unexpected(object.error());
      FRESHET_CO_TRY(checked, call.names.check_members(*object, call.known_members));
      auto result = co_await post_one(call, *object);
      co_return result;
    }
  }
  auto result = co_await post_lines(call);
  co_return result;
}

}  // namespace freshet::handlers
