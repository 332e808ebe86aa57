// The generation that serves, and while a reload is under way the one that shall take over from it:
// begun beside it, and in its place when all its workers are ready. Whatever goes wrong before
// leaves the first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fcgi/process/pool.h"

namespace freshet {

// Reads the configuration again, and what belongs to it; called for each reload, in the master.
using LoadFunction = std::function<Result<GenerationSpec>()>;

struct ReloadOptions {
  bool allow_root = false;
  bool with_status = false;  // pm.status_listen is in use
  milliseconds ready_timeout{};
};

class Reload {
 public:
  Reload(Pool& pool, Scoreboard& board, const LoadFunction& load, ReloadOptions options,
         std::unique_ptr<Generation> first);

  Generation& current() { return *current_; }
  // That with this number; null when it is neither the one that serves nor the next.
  Generation* find(std::uint32_t number);
  std::vector<Generation*> generations();

  // Reads the configuration and starts the next generation, or has failed. False: not now, workers
  // of earlier generations drain in the slots that it needs. REQUIRES: !under_way().
  bool begin(SteadyTime now);
  bool is_in_progress() const { return next_ != nullptr; }
  void tick(SteadyTime now);
  void reap(const WorkerDeath& death);
  void cancel() { next_.reset(); }  // its workers are the caller's business

  // After success, once: the generation that served before.
  std::unique_ptr<Generation> take_replaced() { return std::move(replaced_); }
  bool has_failed() const { return !failure_.empty(); }
  std::string take_failure() { return std::exchange(failure_, {}); }

  SteadyTime next_deadline(SteadyTime now, SteadyTime awake_since);

 private:
  Result<GenerationSpec> load_next() const;
  void abort(std::string reason);

  Pool& pool_;
  Scoreboard& board_;
  const LoadFunction& load_;
  const ReloadOptions options_;
  std::unique_ptr<Generation> current_, next_, replaced_;
  std::uint32_t last_number_;
  SteadyTime ready_deadline_{};
  std::string failure_;
};

}  // namespace freshet
