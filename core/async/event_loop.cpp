#include "core/async/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <system_error>

namespace freshet {

namespace {

constexpr int kEventsPerTurn = 256;

int make_epoll() {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return fd;
}

}  // namespace

EventLoop::EventLoop() : epoll_fd_(make_epoll()), descriptor_(io_, epoll_fd_) {}

EventLoop::~EventLoop() = default;  // descriptor_ owns and closes epoll_fd_

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

void EventLoop::request_end_of_turn() {
  if (wanted_) return;
  wanted_ = true;
  if (!in_turn_) boost::asio::post(io_, [this] { end_turn(); });
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
  const int ready = epoll_wait(epoll_fd_, events.data(), kEventsPerTurn, 0);
  turn_began_ = std::chrono::steady_clock::now();
  in_turn_ = true;
  removed_.clear();
  const auto gone = [this](Watcher* w) {
    return std::find(removed_.begin(), removed_.end(), w) != removed_.end();
  };
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto* watcher = static_cast<Watcher*>(event.data.ptr);
    if (!gone(watcher)) watcher->on_ready(event.events);
  }
  while (wanted_) end_turn();  // an action may resume coroutines that ask again
  in_turn_ = false;
  if (each_turn_) each_turn_();
}

void EventLoop::arm() {
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [this](boost::system::error_code error) {
                           if (error) return;
                           turn();
                           arm();
                         });
}

void EventLoop::run(std::function<void()> each_turn) {
  each_turn_ = std::move(each_turn);
  arm();
  io_.run();
}

}  // namespace freshet
