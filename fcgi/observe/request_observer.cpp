#include "fcgi/observe/request_observer.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/log.h"
#include "core/base/log_line.h"
#include "core/base/time.h"
#include "core/redis/command_name.h"
#include "fcgi/observe/access_line.h"

namespace freshet::observe {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

void grow(std::atomic<std::uint64_t>& counter) { counter.store(counter.load(kRelaxed) + 1, kRelaxed); }

std::int64_t in_us(RequestObserver::Clock::time_point at) {
  return duration_cast<microseconds>(at.time_since_epoch()).count();
}

template <std::size_t kSize>
void copy_text(std::string_view text, std::array<char, kSize>& into) {
  const auto end = std::ranges::copy(text.substr(0, kSize - 1), into.begin()).out;
  std::fill(end, into.end(), '\0');
}

void fill(ShownRequest& shown, const Request& request, microseconds duration) {
  shown.received_us = in_us(request.first_byte_at);
  shown.duration_us = duration.count();
  shown.content_length = static_cast<std::int64_t>(request.body_bytes);
  copy_text(method_name(request.method), shown.method);
  copy_text(path_of(request.uri), shown.path);
}

std::string in_ms(microseconds duration) {
  std::string text = std::to_string(duration.count() / 1000);
  return text.append(".").append(std::to_string(duration.count() % 1000 + 1000).substr(1));
}

std::vector<AccessFormatPart> format_of(const RequestLogSettings& settings) {
  auto format = parse_access_format(settings.access_format);  // checked with the configuration
  return format ? std::move(*format) : std::vector<AccessFormatPart>();
}

}  // namespace

RequestObserver::RequestObserver(const RequestLogSettings& settings, Scoreboard& board, WorkerSlot& slot,
                                 std::span<const redis::Script> scripts)
    : board_(board),
      slot_(slot),
      scripts_(scripts),
      format_(format_of(settings)),
      access_log_(settings.access_log, LineFile::Buffer::kLines),
      slow_log_(settings.slowlog, LineFile::Buffer::kNone),
      own_slow_log_(!settings.slowlog.empty()) {}

void RequestObserver::on_answered(const Request& request, const Response& response, Clock::time_point now) {
  const auto duration = duration_cast<microseconds>(now - request.first_byte_at);
  RouteCounters& route = slot_.routes[std::min<std::size_t>(request.trace.route, kMostRoutes - 1)];
  route.latency.add(duration);
  grow(route.status[static_cast<std::size_t>(std::clamp(response.status / 100, 1, 5) - 1)]);
  fill(last_, request, std::max(duration, microseconds(1)));
  if (!access_log_.is_open()) return;
  const auto written = std::chrono::system_clock::now();
  line_.clear();
  append_access_line(line_, format_,
                     {.request = request,
                      .response = response,
                      .received = written - duration,
                      .written = written,
                      .duration = duration,
                      .pid = getpid(),
                      .parent = getppid(),
                      .peak_memory = slot_.peak_rss_bytes.load(kRelaxed),
                      .route = board_.route_name(request.trace.route)});
  access_log_.append(line_);
}

void RequestObserver::on_slow(const Request& request, Clock::duration elapsed) {
  grow(slot_.slow_requests);
  const RequestTrace& stage = request.trace;
  std::string doing(kRequestPhaseNames[static_cast<std::size_t>(stage.phase)]);
  if (stage.awaited_commands != nullptr) doing.append(" ").append(redis::command_name(*stage.awaited_commands, scripts_));
  const std::string method(request.method == Method::kOther ? "-" : method_name(request.method)),
      route = board_.route_name(stage.route), took = in_ms(duration_cast<microseconds>(elapsed)),
      in_redis = in_ms(stage.redis_time), trips = std::to_string(stage.round_trips), id(request.request_id),
      pid = std::to_string(getpid());
  const std::initializer_list<log::Field> fields{
      {"method", method},     {"route", route},       {"stage", doing}, {"elapsed_ms", took},
      {"redis_ms", in_redis}, {"round_trips", trips}, {"request", id},  {"pid", pid}};
  if (!own_slow_log_) {
    log::warning("slow_request", fields);
    return;
  }
  std::string line = to_rfc3339(wall_now()) + " event=slow_request";
  log::append_fields(line, fields);
  slow_log_.append(line);
}

void RequestObserver::show(const Request* oldest) {
  if (oldest != nullptr) {
    const std::int64_t received = in_us(oldest->first_byte_at);
    if (shown_running_ && received == shown_us_) return;
    ShownRequest shown;
    fill(shown, *oldest, microseconds(0));
    slot_.request.store(shown);
    shown_us_ = received;
    shown_running_ = true;
    return;
  }
  if (!shown_running_ && last_.received_us == shown_us_) return;
  slot_.request.store(last_);
  shown_us_ = last_.received_us;
  shown_running_ = false;
}

void RequestObserver::reopen() {
  access_log_.reopen();
  slow_log_.reopen();
}

}  // namespace freshet::observe
