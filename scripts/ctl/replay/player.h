// Plays a log: its events over kept connections, each when it is due.
#pragma once

#include <utility>  // Boost 1.74's awaitable.hpp stands on it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/replay/replay.h"

namespace freshet::ctl {

struct PlayOptions {
  double speed = 1;  // seconds of the log a second; kMaxSpeed
  int connections = 8;
  std::vector<Route> routes;  // each event goes to each of these, in order
  bool shift_to_now = false;
  bool loop = false;
  bool event_ids = false;  // reports carry one, so one whose reply was lost is sent again
  bool quiet = false;
  std::string user_agent;  // of events without one
};

class Player {
 public:
  using Clock = std::chrono::steady_clock;
  // All must outlive this. REQUIRES: `events` not empty, in order of time; `published` has every
  // item.
  Player(const std::vector<LogEvent>& events, const std::unordered_map<std::string, UnixSeconds>& published,
         const HttpAddress& address, const PlayOptions& options);

  // Blocks until everything has been played or SIGINT or SIGTERM came; requests in flight are
  // waited for. Errors: kUnavailable when the service cannot be reached at first, or for half a
  // minute later on.
  Result<void> play();

  const ReplayTotals& totals() const { return totals_; }
  Nanoseconds elapsed() const { return ended_ - began_; }
  seconds shift() const { return shift_; }
  bool interrupted() const { return interrupted_; }

 private:
  struct ScheduledEvent {  // an event to play
    const LogEvent* event;
    std::int64_t number;  // in this round, from 0
    std::int64_t round;   // from 1
    Clock::time_point due;
    seconds shift;
  };
  std::optional<ScheduledEvent> next_event();
  void start_round();
  boost::asio::awaitable<void> run_connection(boost::asio::steady_timer& timer);
  boost::asio::awaitable<void> send_event(HttpConnection& http, boost::asio::steady_timer& timer,
                                        const ScheduledEvent& ticket, Route route);
  boost::asio::awaitable<std::optional<Result<HttpReply>>> send(HttpConnection& http,
                                                                boost::asio::steady_timer& timer,
                                                                const HttpRequest& request);
  boost::asio::awaitable<void> sleep_until(boost::asio::steady_timer& timer, Clock::time_point until);
  boost::asio::awaitable<void> show_periodically();
  void count(const Result<HttpReply>& reply, Nanoseconds took);
  void show_progress();
  void stop();

  const std::vector<LogEvent>& events_;
  const std::unordered_map<std::string, UnixSeconds>& published_;
  const HttpAddress& address_;
  const PlayOptions options_;
  const std::string run_id_;  // sets the event ids of two replays apart

  boost::asio::io_context io_;
  boost::asio::signal_set signals_;
  std::deque<boost::asio::steady_timer> timers_;  // one a connection
  boost::asio::steady_timer report_timer_;
  ProgressLine progress_;
  ReplayTotals totals_;
  Clock::time_point began_, ended_, round_began_;
  seconds shift_{0};
  std::size_t next_ = 0;
  std::int64_t round_ = 1;
  std::int64_t round_done_ = 0;
  int open_connections_ = 0;
  bool stopping_ = false;
  bool interrupted_ = false;
  Nanoseconds lag_{0};  // how late the event played last was
  std::optional<Error> error_;
};

}  // namespace freshet::ctl
