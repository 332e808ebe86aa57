// The pool's state as PHP-FPM shows it, from the scoreboard alone: it can be answered while every
// worker is busy.
#pragma once

#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "fcgi/http/target.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::handlers {

// PHP-FPM's forms: ?json, ?html, ?xml, ?openmetrics (its own phpfpm_ families and no more; /metrics
// has ours), else lines.
enum class StatusFormat : std::uint8_t { kText, kJson, kHtml, kXml, kOpenMetrics };

struct StatusPage {
  std::string body;
  std::string_view content_type;
};

// PHP-FPM's keys in its order (tests/e2e/php_fpm_status.json is taken from a real one), then
// ours: requests, refused by reason, Redis, background writer, recorder ("off": recorder.enabled is
// false; "away": it has died and is about to be started again; starting, running; "waiting" with a
// reason and since when, in unix seconds), seen-filter (as of "sampled at"). `full` adds each
// worker, `history` to JSON the last five minutes (status_history.h).
//
// What is not PHP-FPM's meaning: "accepted conn" are connections, which nginx keeps for many
// requests; a worker has many requests, "request …" are of the one that has been inside longest, or
// else the last one; "last request cpu" is the worker's lately, in percent of a core, "last request
// memory" its resident memory; "user" and "script" are always "-".
StatusPage status_page(Scoreboard& board, const Settings& settings, UnixSeconds now, StatusFormat format,
                       bool full, bool history = false);
StatusFormat parse_status_format(const http::Target& target);

}  // namespace freshet::handlers
