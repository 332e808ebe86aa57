// Records finished and slow requests: latencies and statuses by route in the worker's slot, the
// access log, the slow log, and the request that the status page shows.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config/access_format.h"
#include "core/config/settings.h"
#include "core/redis/command.h"
#include "fcgi/gateway/observer.h"
#include "fcgi/observe/line_file.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::observe {

class RequestObserver final : public gateway::Observer {
 public:
  using Clock = std::chrono::steady_clock;
  // Created in the worker. `scripts` resolve names of Redis scripts. References must outlive this
  // object.
  RequestObserver(const RequestLogSettings& settings, Scoreboard& board, WorkerSlot& slot,
                  std::span<const redis::Script> scripts);

  void on_answered(const Request& request, const Response& response, Clock::time_point now) override;
  void on_slow(const Request& request, Clock::duration elapsed) override;

  // Call after each loop iteration. Publishes the oldest request in flight (null: none), else the
  // last finished one.
  void publish(const Request* oldest);
  // Call regularly: writes buffered lines of the access log.
  void flush() { access_log_.flush(); }
  void reopen();

 private:
  Scoreboard& board_;
  WorkerSlot& slot_;
  std::span<const redis::Script> scripts_;
  std::vector<AccessFormatPart> format_;
  LineFile access_log_;
  LineFile slow_log_;
  const bool has_slow_log_;
  std::string line_;
  RequestSnapshot last_{};
  std::int64_t published_us_ = 0;  // received_us of the published request
  bool published_running_ = false;
};

}  // namespace freshet::observe
