// For operators: is it alive, is it ready, what is it doing. Internal routes. All but get_ready are
// answered from the scoreboard and never wait; OperationPages answers the same where there are no
// services (fcgi/status_process.h).
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

class OperationPages {
 public:
  // References outlive this.
  OperationPages(Scoreboard& board, const Settings& settings) : board_(board), settings_(settings) {}

  Response ping() const;
  Response status(const http::Target& target) const;
  Response metrics() const;
  Response live() const;
  // `is_ready`: whether the one that is meant can serve; else 503.
  Response ready(bool is_ready) const;
  // Some worker serves, and reaches Redis.
  bool pool_ready() const;

 private:
  Scoreboard& board_;
  const Settings& settings_;
};

Task<Result<Response>> get_ping(Call& call);
Task<Result<Response>> get_status(Call& call);
Task<Result<Response>> get_metrics(Call& call);
Task<Result<Response>> get_live(Call& call);
Task<Result<Response>> get_ready(Call& call);  // 503 while this worker's Redis is away

}  // namespace freshet::handlers
