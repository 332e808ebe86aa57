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
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kMostPause{2000};
constexpr seconds kPatience{30};  // with a service that has gone away
constexpr int kTries = 3;         // of a report with an event id
constexpr Nanoseconds kShownLag = std::chrono::seconds(1);

// Two replays of one log within a day must not look like one report sent twice.
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
      line_(stderr, options.quiet) {}

void Player::begin_round() {
  next_ = 0;
  round_done_ = 0;
  round_began_ = Clock::now();
  if (options_.shift_to_now) {
    shift_ = shift_to_now(events_.front().at, events_.back().at, wall_now(), options_.speed);
  }
}

std::optional<Player::Ticket> Player::take() {
  if (stopping_) return std::nullopt;
  if (next_ == events_.size()) {
    if (!options_.loop) return std::nullopt;
    ++round_;
    ++totals_.rounds;
    begin_round();
  }
  const LogEvent& event = events_[next_];
  const auto number = static_cast<std::int64_t>(next_++);
  return Ticket{&event, number, round_, round_began_ + due(events_.front().at, event.at, options_.speed),
                shift_};
}

asio::awaitable<void> Player::wait(asio::steady_timer& timer, Clock::time_point until) {
  if (stopping_ || until <= Clock::now()) co_return;
  timer.expires_at(until);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// A reply, or what went wrong with it; nothing when it was stopped before it could be sent.
asio::awaitable<std::optional<Result<HttpReply>>> Player::send(HttpConnection& http,
                                                               asio::steady_timer& timer,
                                                               const HttpRequest& request) {
  const auto began = Clock::now();
  milliseconds pause = kFirstPause;
  for (int tries = 1;;) {
    auto reply = co_await http.exchange(request);
    if (reply) co_return reply;
    const bool not_sent = reply.error().code == ErrorCode::kUnavailable;
    if (not_sent) {
      // A wrong address is told at once; a service that was there is waited for.
      if (totals_.sent + totals_.lost == 0 || Clock::now() - began > kPatience) {
        if (!error_) error_ = reply.error();
        stop();
      }
    } else {
      if (!options_.event_ids || tries++ == kTries) co_return reply;
      ++totals_.resent;
    }
    if (stopping_) {
      if (not_sent) co_return std::nullopt;
      co_return reply;
    }
    co_await wait(timer, Clock::now() + pause);
    pause = std::min(2 * pause, kMostPause);
  }
}

void Player::count(const Result<HttpReply>& reply, Nanoseconds took) {
  if (!reply) {
    ++totals_.lost;
    return;
  }
  ++totals_.sent;
  totals_.latencies.add(took);
  const Outcome outcome = outcome_of(reply->status, reply->body);
  ++totals_.by_outcome[static_cast<std::size_t>(outcome)];
  if (outcome == Outcome::kRefused || outcome == Outcome::kFailed) ++totals_.refusals[reply->status];
}

asio::awaitable<void> Player::play_one(HttpConnection& http, asio::steady_timer& timer, const Ticket& ticket,
                                       Route route) {
  const LogEvent& event = *ticket.event;
  const UnixSeconds published = published_.at(event.item) + ticket.shift;
  // With speeds under 1 a moved time can still be ahead of now.
  const auto shown = std::min(published, std::max(wall_now(), published_.at(event.item)));
  const std::string event_id =
      options_.event_ids ? fmt::format("{}-{}-{}", run_id_, ticket.round, ticket.number) : std::string();
  HttpRequest request{"POST", route == Route::kTrack ? "/api/track" : "/api/views",
                      report_body(route, event, shown.time_since_epoch().count(), ticket.round, event_id),
                      "application/json", event.user_agent.empty() ? options_.user_agent : event.user_agent};
  const auto began = Clock::now();
  const auto reply = co_await send(http, timer, request);
  if (reply) count(*reply, Clock::now() - began);
}

asio::awaitable<void> Player::connection(asio::steady_timer& timer) {
  HttpConnection http(io_.get_executor(), address_, kRequestTimeout);
  while (const auto ticket = take()) {
    co_await wait(timer, ticket->due);
    if (stopping_) break;
    if (options_.speed != kMaxSpeed) lag_ = std::max(Nanoseconds(0), Nanoseconds(Clock::now() - ticket->due));
    for (const Route route : options_.routes) co_await play_one(http, timer, *ticket, route);
    ++totals_.events;
    if (ticket->round == round_ && ++round_done_ == static_cast<std::int64_t>(events_.size()))
      ++totals_.rounds;
  }
  if (--open_ == 0) {
    report_timer_.cancel();
    signals_.cancel();
  }
}

void Player::show() {
  Progress progress{round_done_, static_cast<std::int64_t>(events_.size()), Clock::now() - round_began_, {}};
  if (options_.speed != kMaxSpeed) {
    const auto end = round_began_ + playing_time(events_.front().at, events_.back().at, options_.speed);
    progress.left = std::max(Nanoseconds(0), Nanoseconds(end - Clock::now())) + lag_;
  }
  std::string more;
  if (options_.loop) more += fmt::format("round {}  ", round_);
  std::int64_t not_ok = totals_.lost;
  for (const auto& [status, times] : totals_.refusals) not_ok += times;
  if (not_ok > 0) more += fmt::format("{} not accepted  ", grouped(not_ok));
  if (lag_ > kShownLag) more += fmt::format("{} late  ", in_words(lag_));
  line_.show(progress, more);
}

asio::awaitable<void> Player::report() {
  while (open_ > 0) {
    report_timer_.expires_after(line_.interval());
    boost::system::error_code ignored;
    co_await report_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (open_ > 0) show();
  }
}

void Player::stop() {
  stopping_ = true;
  for (auto& timer : timers_) timer.cancel();
}

Result<void> Player::play() {
  began_ = Clock::now();
  begin_round();
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    interrupted_ = true;
    stop();
    signals_.clear();  // a second Ctrl-C ends at once
  });
  for (int i = 0; i < options_.connections; ++i) timers_.emplace_back(io_);
  open_ = options_.connections;
  for (auto& timer : timers_) asio::co_spawn(io_, connection(timer), asio::detached);
  asio::co_spawn(io_, report(), asio::detached);
  io_.run();
  ended_ = Clock::now();
  line_.clear();
  if (error_) return tl::unexpected(*error_);
  return {};
}

}  // namespace freshet::ctl
