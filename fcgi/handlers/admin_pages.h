// Pages for operators: liveness, readiness, status and metrics. Internal routes. All except
// get_ready are answered from the scoreboard and never wait; AdminPages serves the same pages
// without Services (fcgi/status_process.h).
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

class AdminPages {
 public:
  // The references must outlive this.
  AdminPages(Scoreboard& board, const Settings& settings) : board_(board), settings_(settings) {}

  Response ping() const;
  Response status(const http::Target& target) const;
  Response metrics() const;
  Response live() const;
  // 503 if a dependency that ready.require lists is missing; otherwise lists the missing ones.
  Response ready(const DependencyState& state) const;
  // Readiness of the pool: a dependency is available if any worker has it. 503 if no worker is
  // ready.
  Response pool_ready() const;

 private:
  Scoreboard& board_;
  const Settings& settings_;
};

Task<Result<Response>> get_ping(Call& call);
Task<Result<Response>> get_status(Call& call);
Task<Result<Response>> get_metrics(Call& call);
Task<Result<Response>> get_live(Call& call);
Task<Result<Response>> get_ready(Call& call);  // readiness of this worker

}  // namespace freshet::handlers
