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

constexpr int kEventsPerTurn = 256;
constexpr std::int64_t kLongestWaitMs = 3'600'000;

int make_epoll() {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return fd;
}

}  // namespace

EventLoop::EventLoop() : epoll_fd_(make_epoll()), bell_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (bell_fd_ < 0 || epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, bell_fd_, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "eventfd");
}

EventLoop::~EventLoop() {
  close(bell_fd_);
  close(epoll_fd_);
}

bool EventLoop::add(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watcher;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool EventLoop::modify(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watcher;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) == 0;
}

void EventLoop::remove(int fd, Watcher& watcher) {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  if (in_turn_) removed_.push_back(&watcher);
}

std::size_t EventLoop::at_end_of_turn(std::function<void()> action) {
  actions_.push_back(std::move(action));
  return actions_.size() - 1;
}

void EventLoop::post(std::function<void()> f) {
  boost::asio::post(io_, std::move(f));
  ring();
}

void EventLoop::stop() {
  stopped_ = true;
  ring();
}

void EventLoop::ring() {
  const std::uint64_t one = 1;
  // A full counter has rung already.
  (void)!write(bell_fd_, &one, sizeof one);
}

std::optional<EventLoop::Clock::time_point> EventLoop::next_due() const {
  if (due_.empty()) return std::nullopt;
  return *due_.begin();
}

// Rounded up: a turn that comes early would find nothing to do.
int EventLoop::longest_wait_ms() const {
  if (wanted_ || stopped_) return 0;
  if (due_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due_.begin() - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongestWaitMs));
}

void EventLoop::end_turn() {
  wanted_ = false;
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    if (actions_[i]) actions_[i]();
  }
  // Destructors may dispose of more.
  while (!garbage_.empty()) {
    auto dead = std::move(garbage_);
    garbage_.clear();
    dead.clear();
  }
}

void EventLoop::turn() {
  std::array<epoll_event, kEventsPerTurn> events;
  const int ready = epoll_wait(epoll_fd_, events.data(), kEventsPerTurn, longest_wait_ms());
  turn_began_ = Clock::now();
  in_turn_ = true;
  removed_.clear();
  const auto gone = [this](Watcher* w) {
    return std::find(removed_.begin(), removed_.end(), w) != removed_.end();
  };
  bool poll_asio = !due_.empty() && *due_.begin() <= turn_began_;
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto* watcher = static_cast<Watcher*>(event.data.ptr);
    if (watcher == nullptr) {
      std::uint64_t rung;
      poll_asio = read(bell_fd_, &rung, sizeof rung) == sizeof rung || poll_asio;
    } else if (!gone(watcher)) {
      watcher->on_ready(event.events);
    }
  }
  if (poll_asio) io_.poll();
  while (wanted_) end_turn();  // an action may resume coroutines that ask again
  in_turn_ = false;
}

void EventLoop::run(const std::function<void()>& each_turn) {
  do {
    turn();
    if (each_turn) each_turn();
  } while (!stopped_);
}

}  // namespace freshet
