// Plays a log: sends each event when it is due, over persistent connections.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/http/http_client.h"
#include "scripts/ctl/replay/replay.h"

namespace freshet::ctl {

struct PlayOptions {
  double speed = 1;  // seconds of the log per second; or kMaxSpeed
  int connections = 8;
  std::vector<Route> routes;  // every event is sent to each of these, in order
  bool shift_to_now = false;
  bool loop = false;
  bool event_ids = false;  // send an event id, so that a report without a reply can be repeated
  bool quiet = false;
  std::string user_agent;  // for events without one
};

class Player {
 public:
  using Clock = std::chrono::steady_clock;
  // All references must outlive this. REQUIRES: `events` is not empty and in order of time;
  // `published` has every item.
  Player(const std::vector<LogEvent>& events, const std::unordered_map<std::string, UnixSeconds>& published,
         const HttpAddress& address, const PlayOptions& options);

  // Blocks until everything has been played or SIGINT or SIGTERM arrives; waits for requests in
  // flight. Errors: kUnavailable if the service cannot be reached at the start, or for half a
  // minute later on.
  Result<void> play();

  const ReplayTotals& totals() const { return totals_; }
  Nanoseconds elapsed() const { return ended_ - began_; }
  seconds shift() const { return shift_; }
  bool interrupted() const { return interrupted_; }

 private:
  struct ScheduledEvent {  // an event with its due time
    const LogEvent* event;
    std::int64_t number;  // within the round, from 0
    std::int64_t round;   // from 1
    Clock::time_point due;
    seconds shift;
  };
  // Require mutex_, except run_connection(), send_event(), send() and show_*(), which lock it.
  std::optional<ScheduledEvent> next_event();
  void start_round();
  void run_connection();
  void send_event(HttpClient& http, const ScheduledEvent& scheduled, Route route);
  std::optional<Result<HttpReply>> send(HttpClient& http, const HttpRequest& request);
  // False if stopped.
  bool sleep_until(std::unique_lock<std::mutex>& lock, Clock::time_point until);
  void show_periodically();
  void count(const Result<HttpReply>& reply, Nanoseconds took);
  void show_progress();
  void stop();

  const std::vector<LogEvent>& events_;
  const std::unordered_map<std::string, UnixSeconds>& published_;
  const HttpAddress& address_;
  const PlayOptions options_;
  const std::string run_id_;  // makes the event ids of this replay unique

  // Used by the thread that called play(); each connection has a thread of its own.
  boost::asio::io_context io_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer report_timer_;
  ProgressLine progress_;
  int open_connections_ = 0;
  bool interrupted_ = false;

  std::mutex mutex_;  // for all below
  std::condition_variable stopped_;
  ReplayTotals totals_;
  Clock::time_point began_, ended_, round_began_;
  seconds shift_{0};
  std::size_t next_ = 0;
  std::int64_t round_ = 1;
  std::int64_t round_done_ = 0;
  bool stopping_ = false;
  Nanoseconds lag_{0};  // delay of the last event
  std::optional<Error> error_;
};

}  // namespace freshet::ctl
