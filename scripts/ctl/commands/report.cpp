#include "core/base/json.h"
#include "scripts/ctl/replay/replay.h"

namespace freshet::ctl {
namespace {

constexpr seconds kSessionGap{1800};

}  // namespace

void derive_sessions(std::vector<LogEvent>& events) {
  struct Last {
    UnixSeconds at;
    std::int64_t number = 1;
  };
  std::unordered_map<std::string, Last> readers;
  for (LogEvent& event : events) {
    if (!event.session.empty()) continue;
    const auto [reader, first] = readers.try_emplace(event.user, Last{event.at});
    if (!first && event.at - reader->second.at >= kSessionGap) ++reader->second.number;
    reader->second.at = event.at;
    event.session = event.user + "-" + std::to_string(reader->second.number);
  }
}

std::string report_body(Route route, const LogEvent& event, std::int64_t published, std::int64_t round,
                        const std::string& event_id) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object().key("articleId").string(event.item);
  if (route == Route::kTrack) {
    writer.key("userId").string(event.user).key("dwellMs").integer(event.dwell_ms);
    if (!event.session.empty()) {
      writer.key("sessionId")
          .string(round == 1 ? event.session : event.session + "-r" + std::to_string(round));
    }
  } else {
    writer.key("fingerprint").string(event.user);
  }
  writer.key("publishedAt").integer(published);
  if (!event_id.empty()) writer.key("eventId").string(event_id);
  writer.end_object();
  return body;
}

ReportOutcome outcome_of(int status, std::string body) {
  if (status == 202) return ReportOutcome::kQueued;
  if (status >= 400 && status < 500) return ReportOutcome::kRefused;
  if (status < 200 || status >= 300) return ReportOutcome::kFailed;
  json::Document document;
  if (!document.parse(body)) return ReportOutcome::kFailed;
  const json::Value counted = document.root()["counted"], dedup = document.root()["dedup"];
  if (counted.type() == json::Type::kBool && !counted.boolean()) return ReportOutcome::kBot;
  if (dedup.type() == json::Type::kBool && dedup.boolean()) return ReportOutcome::kDedup;
  return ReportOutcome::kCounted;
}

}  // namespace freshet::ctl
