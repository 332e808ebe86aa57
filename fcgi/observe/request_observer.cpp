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

void increment(std::atomic<std::uint64_t>& counter) { counter.store(counter.load(kRelaxed) + 1, kRelaxed); }

std::int64_t to_us(RequestObserver::Clock::time_point at) {
  return duration_cast<microseconds>(at.time_since_epoch()).count();
}

template <std::size_t kSize>
void copy_text(std::string_view text, std::array<char, kSize>& buffer) {
  const auto end = std::ranges::copy(text.substr(0, kSize - 1), buffer.begin()).out;
  std::fill(end, buffer.end(), '\0');
}

void describe_request(RequestSnapshot& snapshot, const Request& request, microseconds duration) {
  snapshot.received_us = to_us(request.first_byte_at);
  snapshot.duration_us = duration.count();
  snapshot.content_length = static_cast<std::int64_t>(request.body_bytes);
  copy_text(method_name(request.method), snapshot.method);
  copy_text(path_of(request.uri), snapshot.path);
}

std::string ms_text(microseconds duration) {
  std::string text = std::to_string(duration.count() / 1000);
  return text.append(".").append(std::to_string(duration.count() % 1000 + 1000).substr(1));
}

std::vector<AccessFormatPart> access_format(const RequestLogSettings& settings) {
  auto format = parse_access_format(settings.access_format);  // already validated with the configuration
  return format ? std::move(*format) : std::vector<AccessFormatPart>();
}

}  // namespace

RequestObserver::RequestObserver(const RequestLogSettings& settings, Scoreboard& board, WorkerSlot& slot,
                                 std::span<const redis::Script> scripts)
    : board_(board),
      slot_(slot),
      scripts_(scripts),
      format_(access_format(settings)),
      access_log_(settings.access_log, LineFile::Buffering::kLines),
      slow_log_(settings.slowlog, LineFile::Buffering::kNone),
      has_slow_log_(!settings.slowlog.empty()) {}

void RequestObserver::on_answered(const Request& request, const Response& response, Clock::time_point now) {
  const auto duration = duration_cast<microseconds>(now - request.first_byte_at);
  RouteCounters& route = slot_.routes[std::min<std::size_t>(request.trace.route, kMaxRoutes - 1)];
  route.latency.add(duration);
  increment(route.status[static_cast<std::size_t>(std::clamp(response.status / 100, 1, 5) - 1)]);
  describe_request(last_, request, std::max(duration, microseconds(1)));
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
  increment(slot_.slow_requests);
  const RequestTrace& trace = request.trace;
  std::string phase(kRequestPhaseNames[static_cast<std::size_t>(trace.phase)]);
  if (trace.awaited_commands != nullptr)
    phase.append(" ").append(redis::command_name(*trace.awaited_commands, scripts_));
  const std::string method(request.method == Method::kOther ? "-" : method_name(request.method)),
      route = board_.route_name(trace.route), elapsed_ms = ms_text(duration_cast<microseconds>(elapsed)),
      in_redis = ms_text(trace.redis_time), trips = std::to_string(trace.round_trips), id(request.request_id),
      pid = std::to_string(getpid());
  const std::initializer_list<log::Field> fields{
      {"method", method},     {"route", route},       {"stage", phase}, {"elapsed_ms", elapsed_ms},
      {"redis_ms", in_redis}, {"round_trips", trips}, {"request", id},  {"pid", pid}};
  if (!has_slow_log_) {
    log::warning("slow_request_detected", fields);
    return;
  }
  std::string line = to_rfc3339(wall_now()) + " event=slow_request_detected";
  log::append_fields(line, fields);
  slow_log_.append(line);
}

void RequestObserver::publish(const Request* oldest) {
  if (oldest != nullptr) {
    const std::int64_t received = to_us(oldest->first_byte_at);
    if (published_running_ && received == published_us_) return;
    RequestSnapshot snapshot;
    describe_request(snapshot, *oldest, microseconds(0));
    slot_.request.store(snapshot);
    published_us_ = received;
    published_running_ = true;
    return;
  }
  if (!published_running_ && last_.received_us == published_us_) return;
  slot_.request.store(last_);
  published_us_ = last_.received_us;
  published_running_ = false;
}

void RequestObserver::reopen() {
  access_log_.reopen();
  slow_log_.reopen();
}

}  // namespace freshet::observe
