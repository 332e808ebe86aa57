// The pool's status as PHP-FPM presents it, from the scoreboard alone, so that it is available
// while every worker is busy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "fcgi/http/target.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::handlers {

// PHP-FPM's formats: ?json, ?html, ?xml, ?openmetrics (only its own phpfpm_ metrics; /metrics has
// ours), otherwise text.
enum class StatusFormat : std::uint8_t { kText, kJson, kHtml, kXml, kOpenMetrics };

struct StatusPage {
  std::string body;
  std::string_view content_type;
};

// PHP-FPM's keys in its order (tests/e2e/php_fpm_status.json is from a real one), then ours:
// requests, refusals by reason, Redis, background writer, recorder, seen filter (as of "sampled
// at"). States of the recorder: "off" (recorder.enabled is false), "away" (it died and will be
// restarted), "starting", "running", "waiting" (with a reason, and since when in unix seconds).
// `full` adds each worker, `history` adds the last five minutes to JSON (status_history.h).
//
// These differ from PHP-FPM: "accepted conn" counts connections, which nginx keeps for many
// requests. A worker has many requests at once: "request …" describes the one in progress the
// longest, otherwise the last one. "last request cpu" is the worker's recent CPU time in percent of
// a core, "last request memory" its resident memory. "user" and "script" are always "-".
StatusPage status_page(Scoreboard& board, const Settings& settings, UnixSeconds now, StatusFormat format,
                       bool full, bool history = false);
StatusFormat parse_status_format(const http::Target& target);

}  // namespace freshet::handlers
