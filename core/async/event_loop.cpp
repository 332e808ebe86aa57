#include "core/async/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <system_error>

namespace freshet {

namespace {

constexpr int kMaxEventsPerIteration = 256;
constexpr std::int64_t kMaxWaitMs = 3'600'000;

int make_epoll() {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return fd;
}

}  // namespace

EventLoop::EventLoop() : epoll_fd_(make_epoll()), wakeup_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (wakeup_fd_ < 0 || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wakeup_fd_, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "eventfd");
}

EventLoop::~EventLoop() {
  close(wakeup_fd_);
  close(epoll_fd_);
}

bool EventLoop::add(int fd, std::uint32_t events, FdHandler& handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &handler;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool EventLoop::modify(int fd, std::uint32_t events, FdHandler& handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &handler;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) == 0;
}

void EventLoop::remove(int fd, FdHandler& handler) {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  if (in_iteration_) removed_.push_back(&handler);
}

std::size_t EventLoop::add_iteration_end_action(std::function<void()> action) {
  end_actions_.push_back(std::move(action));
  return end_actions_.size() - 1;
}

void EventLoop::post(std::function<void()> f) {
  boost::asio::post(io_, std::move(f));
  wake_up();
}

void EventLoop::stop() {
  stopped_ = true;
  wake_up();
}

void EventLoop::wake_up() {
  const std::uint64_t one = 1;
  // If the counter is full, the loop is already being woken up.
  (void)!write(wakeup_fd_, &one, sizeof one);
}

std::optional<EventLoop::Clock::time_point> EventLoop::next_timer_due() const {
  if (timer_deadlines_.empty()) return std::nullopt;
  return *timer_deadlines_.begin();
}

// Rounded up, so that the loop does not wake up just before a timer is due.
int EventLoop::epoll_timeout_ms() const {
  if (end_actions_requested_ || stopped_) return 0;
  if (timer_deadlines_.empty()) return -1;
  const auto remaining =
      std::chrono::ceil<std::chrono::milliseconds>(*timer_deadlines_.begin() - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(remaining, 0, kMaxWaitMs));
}

void EventLoop::run_end_actions() {
  end_actions_requested_ = false;
  for (std::size_t i = 0; i < end_actions_.size(); ++i) {
    if (end_actions_[i]) end_actions_[i]();
  }
  // Destructors may add more.
  while (!to_destroy_.empty()) {
    auto batch = std::move(to_destroy_);
    to_destroy_.clear();
    batch.clear();
  }
}

void EventLoop::run_iteration() {
  std::array<epoll_event, kMaxEventsPerIteration> events;
  const int ready = epoll_wait(epoll_fd_, events.data(), kMaxEventsPerIteration, epoll_timeout_ms());
  iteration_start_ = Clock::now();
  in_iteration_ = true;
  removed_.clear();
  const auto was_removed = [this](FdHandler* w) {
    return std::find(removed_.begin(), removed_.end(), w) != removed_.end();
  };
  bool poll_asio = !timer_deadlines_.empty() && *timer_deadlines_.begin() <= iteration_start_;
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto* handler = static_cast<FdHandler*>(event.data.ptr);
    if (handler == nullptr) {
      std::uint64_t counter;
      poll_asio = read(wakeup_fd_, &counter, sizeof counter) == sizeof counter || poll_asio;
    } else if (!was_removed(handler)) {
      handler->on_ready(event.events);
    }
  }
  if (poll_asio) io_.poll();
  // An action may resume coroutines that request another round.
  while (end_actions_requested_) run_end_actions();
  in_iteration_ = false;
}

void EventLoop::run(const std::function<void()>& on_iteration) {
  do {
    run_iteration();
    if (on_iteration) on_iteration();
  } while (!stopped_);
}

}  // namespace freshet
