#include "scripts/ctl/replay/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <random>

#include "scripts/ctl/replay/timing.h"

namespace freshet::ctl {
namespace asio = boost::asio;

namespace {

constexpr milliseconds kRequestTimeout{10000};
constexpr milliseconds kInitialDelay{100};
constexpr milliseconds kMaxDelay{2000};
constexpr seconds kTimeout{30};  // give up if the service is unreachable for this long
constexpr int kMaxTries = 3;     // for a report with an event id
constexpr Nanoseconds kMinShownLag = std::chrono::seconds(1);

// Event ids must differ between two replays of one log within a day, or the service deduplicates
// them.
std::string new_run_id() {
  std::random_device device;
  return fmt::format("replay-{:08x}{:08x}", device(), device());
}

}  // namespace

Player::Player(const std::vector<LogEvent>& events,
               const std::unordered_map<std::string, UnixSeconds>& published, const HttpAddress& address,
               const PlayOptions& options)
    : events_(events),
      published_(published),
      address_(address),
      options_(options),
      run_id_(new_run_id()),
      signals_(io_, SIGINT, SIGTERM),
      report_timer_(io_),
      progress_(stderr, options.quiet) {}

void Player::start_round() {
  next_ = 0;
  round_done_ = 0;
  round_began_ = Clock::now();
  if (options_.shift_to_now) {
    shift_ = shift_to_now(events_.front().at, events_.back().at, wall_now(), options_.speed);
  }
}

std::optional<Player::ScheduledEvent> Player::next_event() {
  if (stopping_) return std::nullopt;
  if (next_ == events_.size()) {
    if (!options_.loop) return std::nullopt;
    ++round_;
    ++totals_.rounds;
    start_round();
  }
  const LogEvent& event = events_[next_];
  const auto number = static_cast<std::int64_t>(next_++);
  return ScheduledEvent{&event, number, round_,
                        round_began_ + due_offset(events_.front().at, event.at, options_.speed), shift_};
}

asio::awaitable<void> Player::sleep_until(asio::steady_timer& timer, Clock::time_point until) {
  if (stopping_ || until <= Clock::now()) co_return;
  timer.expires_at(until);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// Returns the reply or its error; nullopt if stopped before it was sent.
asio::awaitable<std::optional<Result<HttpReply>>> Player::send(HttpConnection& http,
                                                               asio::steady_timer& timer,
                                                               const HttpRequest& request) {
  const auto began = Clock::now();
  milliseconds pause = kInitialDelay;
  for (int attempts = 1;;) {
    auto reply = co_await http.exchange(request);
    if (reply) co_return reply;
    const bool not_sent = reply.error().code == ErrorCode::kUnavailable;
    if (not_sent) {
      // Fail at once on a wrong address, but wait for a service that has answered before.
      if (totals_.sent + totals_.lost == 0 || Clock::now() - began > kTimeout) {
        if (!error_) error_ = reply.error();
        stop();
      }
    } else {
      if (!options_.event_ids || attempts++ == kMaxTries) co_return reply;
      ++totals_.resent;
    }
    if (stopping_) {
      if (not_sent) co_return std::nullopt;
      co_return reply;
    }
    co_await sleep_until(timer, Clock::now() + pause);
    pause = std::min(2 * pause, kMaxDelay);
  }
}

void Player::count(const Result<HttpReply>& reply, Nanoseconds took) {
  if (!reply) {
    ++totals_.lost;
    return;
  }
  ++totals_.sent;
  totals_.latencies.add(took);
  const ReportOutcome outcome = outcome_of(reply->status, reply->body);
  ++totals_.by_outcome[static_cast<std::size_t>(outcome)];
  if (outcome == ReportOutcome::kRefused || outcome == ReportOutcome::kFailed)
    ++totals_.refusals[reply->status];
}

asio::awaitable<void> Player::send_event(HttpConnection& http, asio::steady_timer& timer,
                                         const ScheduledEvent& scheduled, Route route) {
  const LogEvent& event = *scheduled.event;
  const UnixSeconds published = published_.at(event.item) + scheduled.shift;
  // At speeds below 1 a shifted time can still be in the future.
  const auto published_at = std::min(published, std::max(wall_now(), published_.at(event.item)));
  const std::string event_id = options_.event_ids
                                   ? fmt::format("{}-{}-{}", run_id_, scheduled.round, scheduled.number)
                                   : std::string();
  HttpRequest request{
      "POST", route == Route::kTrack ? "/api/track" : "/api/views",
      report_body(route, event, published_at.time_since_epoch().count(), scheduled.round, event_id),
      "application/json", event.user_agent.empty() ? options_.user_agent : event.user_agent};
  const auto began = Clock::now();
  const auto reply = co_await send(http, timer, request);
  if (reply) count(*reply, Clock::now() - began);
}

asio::awaitable<void> Player::run_connection(asio::steady_timer& timer) {
  HttpConnection http(io_.get_executor(), address_, kRequestTimeout);
  while (const auto scheduled = next_event()) {
    co_await sleep_until(timer, scheduled->due);
    if (stopping_) break;
    if (options_.speed != kMaxSpeed)
      lag_ = std::max(Nanoseconds(0), Nanoseconds(Clock::now() - scheduled->due));
    for (const Route route : options_.routes) co_await send_event(http, timer, *scheduled, route);
    ++totals_.events;
    if (scheduled->round == round_ && ++round_done_ == static_cast<std::int64_t>(events_.size()))
      ++totals_.rounds;
  }
  if (--open_connections_ == 0) {
    report_timer_.cancel();
    signals_.cancel();
  }
}

void Player::show_progress() {
  Progress progress{round_done_, static_cast<std::int64_t>(events_.size()), Clock::now() - round_began_, {}};
  if (options_.speed != kMaxSpeed) {
    const auto end = round_began_ + playback_time(events_.front().at, events_.back().at, options_.speed);
    progress.remaining = std::max(Nanoseconds(0), Nanoseconds(end - Clock::now())) + lag_;
  }
  std::string suffix;
  if (options_.loop) suffix += fmt::format("round {}  ", round_);
  std::int64_t not_ok = totals_.lost;
  for (const auto& [status, times] : totals_.refusals) not_ok += times;
  if (not_ok > 0) suffix += fmt::format("{} not accepted  ", format_number(not_ok));
  if (lag_ > kMinShownLag) suffix += fmt::format("{} late  ", format_duration(lag_));
  progress_.update(progress, suffix);
}

asio::awaitable<void> Player::show_periodically() {
  while (open_connections_ > 0) {
    report_timer_.expires_after(progress_.interval());
    boost::system::error_code ignored;
    co_await report_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (open_connections_ > 0) show_progress();
  }
}

void Player::stop() {
  stopping_ = true;
  for (auto& timer : timers_) timer.cancel();
}

Result<void> Player::play() {
  began_ = Clock::now();
  start_round();
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    interrupted_ = true;
    stop();
    signals_.clear();  // a second Ctrl-C terminates
  });
  for (int i = 0; i < options_.connections; ++i) timers_.emplace_back(io_);
  open_connections_ = options_.connections;
  for (auto& timer : timers_) asio::co_spawn(io_, run_connection(timer), asio::detached);
  asio::co_spawn(io_, show_periodically(), asio::detached);
  io_.run();
  ended_ = Clock::now();
  progress_.clear();
  if (error_) return tl::unexpected(*error_);
  return {};
}

}  // namespace freshet::ctl
