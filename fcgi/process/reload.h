// The generation that serves, and during a reload the next one. The next generation starts next to
// the serving one and replaces it once all its workers are ready. An error before that leaves the
// first one serving.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fcgi/process/pool.h"

namespace freshet {

// Reads the configuration and its files. Called in the master for each reload.
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
  // Returns null if the number is neither the serving nor the next generation's.
  Generation* find(std::uint32_t number);
  std::vector<Generation*> generations();

  // Reads the configuration and starts the next generation; a failure is reported by has_failed().
  // Returns false if workers of earlier generations still drain in the slots that it needs; retry
  // later. REQUIRES: !is_in_progress().
  bool begin(SteadyTime now);
  bool is_in_progress() const { return next_ != nullptr; }
  void tick(SteadyTime now);
  void reap(const WorkerDeath& death);
  void cancel() { next_.reset(); }  // the caller ends its workers

  // After success, once: the generation that was replaced.
  std::unique_ptr<Generation> take_replaced() { return std::move(replaced_); }
  bool has_failed() const { return !failure_.empty(); }
  std::string take_failure() { return std::exchange(failure_, {}); }

  SteadyTime next_deadline(SteadyTime now, SteadyTime awake_since);

 private:
  Result<GenerationSpec> load() const;
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
