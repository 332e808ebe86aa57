// One connection from nginx: reading → serving → writing → reading …  See gateway.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "core/async/event_loop.h"
#include "fcgi/gateway/exchange.h"
#include "fcgi/gateway/framing.h"
#include "fcgi/gateway/gateway.h"

namespace freshet::gateway {

class Connection final : public FdHandler {
 public:
  Connection(Gateway& gateway, int fd);
  ~Connection();

  bool start();        // registers with the loop; false if that failed
  void expire_read();  // called by the deadlines
  void expire_write();
  void close_if_idle();

 private:
  friend class Gateway;
  enum class State : std::uint8_t { kReading, kServing, kWriting, kClosed };

  void on_ready(std::uint32_t events) override;
  void pump();
  bool read_some();
  void serve(std::string_view bytes);
  void finish(std::exception_ptr thrown);  // the handler's coroutine has ended
  void reply_over_budget();                // the budget is used up, but the coroutine has not ended
  void send_reply();
  void send_more();
  void close();

  Gateway& gateway_;
  const int fd_;
  State state_ = State::kReading;
  bool readable_ = false;  // an edge arrived since the last read that drained the socket
  // The peer closed its side. A later read must detect the end, because no further edge will come.
  bool peer_closed_ = false;
  // edge of its own
  bool pumping_ = false;
  bool keep_alive_ = false;
  Framer framer_;
  std::unique_ptr<Exchange> exchange_;
  // When the first byte of the current request was read.
  std::chrono::steady_clock::time_point received_at_{};
  std::string received_;  // the incomplete request; empty while idle
  std::string wire_;      // the reply being sent
  std::size_t sent_ = 0;
  Deadlines<Connection>::Handle read_deadline_;
  Deadlines<Connection>::Handle write_deadline_;
  std::list<std::unique_ptr<Connection>>::iterator position_;  // in the gateway's list
};

}  // namespace freshet::gateway
