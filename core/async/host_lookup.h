// Looks up the addresses of a host name without blocking the loop.
//
// getaddrinfo() may take many seconds when a name server does not answer, and cannot be canceled.
// It runs on a thread of its own, which the lookup abandons when it is destroyed: the thread holds
// nothing but its result. It blocks all signals, since the loop receives the worker's signals.
// Create after fork().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/async/event_loop.h"

namespace freshet {

class HostLookup final : public FdHandler {
 public:
  // Numeric addresses, IPv4 first; empty if the lookup failed.
  using Done = std::function<void(std::vector<std::string>)>;

  // Calls `done` once on the loop's thread, not before this returns. `done` may destroy the lookup
  // by EventLoop::destroy_later().
  HostLookup(EventLoop& loop, std::string host, Done done);
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;
  ~HostLookup() { cancel(); }
  void cancel();  // `done` will not be called

 private:
  struct State;
  void on_ready(std::uint32_t events) override;

  EventLoop& loop_;
  Done done_;
  std::shared_ptr<State> state_;  // shared with the thread; null once done or canceled
};

}  // namespace freshet
