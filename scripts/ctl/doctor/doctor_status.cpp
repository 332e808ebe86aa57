// Checks the status pages' socket with one request.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "core/base/dependency.h"
#include "core/redis/fields.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/doctor/fastcgi_client.h"

namespace freshet::ctl {
namespace {

constexpr milliseconds kStatusTimeout{3000};  // for connecting, and for each read
constexpr milliseconds kIndexDelay{2500};     // within which a worker opens a new index (worker.cpp)

// Warns if /status predicts that Redis' memory fills up soon, at the rate of the last hour or two.
void evaluate_forecast(std::string_view status, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.forecast", kRow = "\"redis full in hours\":";
  constexpr double kSoon = 24;  // same as the alert FreshetRedisFilling
  const std::size_t row = status.find(kRow);
  if (row == status.npos) return;
  const std::string_view number =
      status.substr(row + kRow.size(), status.find_first_of(",}", row) - row - kRow.size());
  const double hours = redis::parse_or_zero<double>(number);
  const std::string forecast = fmt::format("Redis will be full in {:.1f} hours at the current rate", hours);
  if (hours >= kSoon) return out.ok(kCheck, forecast);
  out.warn(kCheck, forecast, "raise maxmemory; `freshetctl top-contributors` lists who writes most");
}

// Warns if articles receive views by POST /api/views and by reports, according to /status.
void evaluate_double_views(std::string_view status, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "views.from_track", kRow = "\"views of tracked articles\":";
  const std::size_t row = status.find(kRow);
  if (row == status.npos || !settings.views.from_track) return;
  const std::string_view digits = status.substr(row + kRow.size());
  const auto views = redis::parse_or_zero<std::int64_t>(digits.substr(0, digits.find_first_of(",}")));
  if (views == 0) return out.ok(kCheck, "no article receives views from both POST /api/views and reports");
  out.warn(
      kCheck,
      fmt::format("{} views by POST /api/views since the start were of articles whose page views count as "
                  "views, too: a reader reported by both counts twice",
                  views),
      "let the pages stop calling /api/views, or set views.from_track = false");
}

// The dependencies that no worker has, according to /status; nullopt: it does not say.
std::optional<std::string_view> missing_dependencies(std::string_view status) {
  constexpr std::string_view kRow = "\"missing\":\"";
  const std::size_t row = status.find(kRow);
  if (row == status.npos) return std::nullopt;
  const std::size_t from = row + kRow.size();
  return status.substr(from, status.find('"', from) - from);
}

bool lacks_index(std::string_view status) {
  return missing_dependencies(status).value_or("").find(dependency_name(Dependency::kIndex)) != status.npos;
}

void evaluate_dependencies(std::string_view status, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "ready";
  const auto missing = missing_dependencies(status);
  if (!missing) return;
  const std::string_view names = *missing;
  if (names.empty()) return out.ok(kCheck, "all dependencies of the workers are available");
  const auto is_missing = [&](std::string_view need) { return names.find(need) != names.npos; };
  const std::string message = fmt::format("unavailable to all workers: {}", names);
  if (std::ranges::any_of(settings.ready.require, is_missing))
    return out.error(kCheck, message + "; /health/ready answers 503",
                     "see its finding here, or remove it from ready.require");
  if (is_missing(dependency_name(Dependency::kIndex)))
    return out.warn(
        kCheck, message + "; feeds only have hot and new items",
        settings.recorder.enabled ? "run `freshetctl reindex`" : "set search.shards to the index servers");
  out.ok(kCheck, message);
}

}  // namespace

void check_status_socket(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "status.socket";
  const std::string& listen = settings.pool.status_listen;
  if (listen.empty())
    return out.warn(kCheck,
                    "pm.status_listen is not set: /status, /metrics and /health do not answer while all "
                    "workers are busy or stopped",
                    "set pm.status_listen = \"/run/freshet/status.sock\" and restart; freshet-http.conf has "
                    "the matching upstream freshet_status");
  const std::string& path = settings.pool.status_path;
  const auto get_status = [&] {
    return fastcgi_get(listen, path.empty() || path.size() > 100 ? "/health/live" : path + "?json",
                       kStatusTimeout);
  };
  auto reply = get_status();
  if (reply && lacks_index(reply->body)) {  // right after the first start
    std::this_thread::sleep_for(kIndexDelay);
    reply = get_status();
  }
  if (reply) {
    evaluate_forecast(reply->body, out);
    evaluate_double_views(reply->body, settings, out);
    evaluate_dependencies(reply->body, settings, out);
    return out.ok(kCheck, "status and metrics are served on " + listen);
  }
  if (reply.error().reason == "forbidden")
    return out.skipped(kCheck, listen + " is not writable for this user");
  if (reply.error().reason == "no_listener")
    return out.error(kCheck, "no listener on pm.status_listen, " + listen,
                     "run `systemctl restart freshet`; `journalctl -u freshet` says why it was not opened");
  out.error(kCheck, listen + " accepts connections but does not answer: " + reply.error().detail,
            "see `journalctl -u freshet`; the master restarts the status process if you kill it");
}

}  // namespace freshet::ctl
