// For operators: is it alive, is it ready, what is it doing. Internal routes. All but get_ready are
// answered from the scoreboard and never wait; OperationPages answers the same where there are no
// services (fcgi/status_process.h).
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

class AdminPages {
 public:
  // References outlive this.
  AdminPages(Scoreboard& board, const Settings& settings) : board_(board), settings_(settings) {}

  Response ping() const;
  Response status(const http::Target& target) const;
  Response metrics() const;
  Response live() const;
  // Whether who has that much serves, and without what: 503 when ready.require lists some of it.
  Response ready(const DependencyState& state) const;
  // Of the pool: what some worker has. 503 while none serves.
  Response pool_ready() const;

 private:
  Scoreboard& board_;
  const Settings& settings_;
};

Task<Result<Response>> get_ping(Call& call);
Task<Result<Response>> get_status(Call& call);
Task<Result<Response>> get_metrics(Call& call);
Task<Result<Response>> get_live(Call& call);
Task<Result<Response>> get_ready(Call& call);  // of this worker

}  // namespace freshet::handlers
