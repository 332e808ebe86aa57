#include "scripts/ctl/replay/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <random>
#include <thread>

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

bool Player::sleep_until(std::unique_lock<std::mutex>& lock, Clock::time_point until) {
  stopped_.wait_until(lock, until, [this] { return stopping_; });
  return !stopping_;
}

// Returns the reply or its error; nullopt if stopped before it was sent.
std::optional<Result<HttpReply>> Player::send(HttpClient& http, const HttpRequest& request) {
  const auto began = Clock::now();
  milliseconds pause = kInitialDelay;
  for (int attempts = 1;;) {
    auto reply = http.exchange(request);
    if (reply) return reply;
    const bool not_sent = reply.error().code == ErrorCode::kUnavailable;
    std::unique_lock lock(mutex_);
    if (not_sent) {
      // Fail at once on a wrong address, but wait for a service that has answered before.
      if (totals_.sent + totals_.lost == 0 || Clock::now() - began > kTimeout) {
        if (!error_) error_ = reply.error();
        stop();
      }
    } else {
      if (!options_.event_ids || attempts++ == kMaxTries) return reply;
      ++totals_.resent;
    }
    if (!sleep_until(lock, Clock::now() + pause)) {
      if (not_sent) return std::nullopt;
      return reply;
    }
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

void Player::send_event(HttpClient& http, const ScheduledEvent& scheduled, Route route) {
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
  const auto reply = send(http, request);
  const Nanoseconds took = Clock::now() - began;
  const std::scoped_lock lock(mutex_);
  if (reply) count(*reply, took);
}

void Player::run_connection() {
  HttpClient http(address_, kRequestTimeout);
  std::unique_lock lock(mutex_);
  while (const auto scheduled = next_event()) {
    if (!sleep_until(lock, scheduled->due)) break;
    if (options_.speed != kMaxSpeed)
      lag_ = std::max(Nanoseconds(0), Nanoseconds(Clock::now() - scheduled->due));
    lock.unlock();
    for (const Route route : options_.routes) send_event(http, *scheduled, route);
    lock.lock();
    ++totals_.events;
    if (scheduled->round == round_ && ++round_done_ == static_cast<std::int64_t>(events_.size()))
      ++totals_.rounds;
  }
}

void Player::show_progress() {
  const std::scoped_lock lock(mutex_);
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

void Player::show_periodically() {
  report_timer_.expires_after(progress_.interval());
  report_timer_.async_wait([this](const boost::system::error_code&) {
    if (open_connections_ == 0) return;
    show_progress();
    show_periodically();
  });
}

void Player::stop() {
  stopping_ = true;
  stopped_.notify_all();
}

Result<void> Player::play() {
  began_ = Clock::now();
  start_round();
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    interrupted_ = true;
    const std::scoped_lock lock(mutex_);
    stop();
    signals_.clear();  // a second Ctrl-C terminates
  });
  open_connections_ = options_.connections;
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(options_.connections));
  for (int i = 0; i < options_.connections; ++i) {
    threads.emplace_back([this] {
      run_connection();
      asio::post(io_, [this] {
        if (--open_connections_ > 0) return;
        report_timer_.cancel();
        signals_.cancel();
      });
    });
  }
  show_periodically();
  io_.run();
  threads.clear();
  ended_ = Clock::now();
  progress_.clear();
  if (error_) return tl::unexpected(*error_);
  return {};
}

}  // namespace freshet::ctl
