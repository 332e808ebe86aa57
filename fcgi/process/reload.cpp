#include "fcgi/process/reload.h"

#include <algorithm>
#include <exception>

#include "core/base/log.h"
#include "fcgi/process/child.h"

namespace freshet {
namespace {

tl::unexpected<Error> bad_reload(const char* directive, const std::string& reason) {
  return fail(ErrorCode::kInvalid, "bad_reload", directive, directive + reason);
}

}  // namespace

Reload::Reload(Pool& pool, Scoreboard& board, const LoadFunction& load, ReloadOptions options,
               std::unique_ptr<Generation> first)
    : pool_(pool),
      board_(board),
      load_(load),
      options_(options),
      current_(std::move(first)),
      last_number_(current_->number) {}

std::vector<Generation*> Reload::generations() {
  std::vector<Generation*> result{current_.get()};
  if (next_) result.push_back(next_.get());
  return result;
}

Generation* Reload::find(std::uint32_t number) {
  for (Generation* generation : generations())
    if (generation->number == number) return generation;
  return nullptr;
}

// An exception must not end a master that serves.
Result<GenerationSpec> Reload::load() const {
  try {
    return load_();
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, "bad_reload", {},
                std::string("the configuration could not be loaded: ") + error.what());
  }
}

Result<GenerationSpec> Reload::load_next() const {
  auto spec = load();
  if (!spec) return spec;
  for (const std::string& warning : spec->configuration.warnings)
    log::warning("config_warning_issued", {{"text", warning}});
  const Settings& settings = spec->configuration.settings;
  const PoolSettings& pool = settings.pool;
  const PoolSettings& serving = current_->settings.pool;
  if (auto ok = check_user(pool, options_.allow_root); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_chdir(pool); !ok) return tl::unexpected(ok.error());
  if (pool.listen != serving.listen) return bad_reload("listen.address", " cannot change without a restart");
  if (options_.with_status && pool.status_listen != serving.status_listen)
    return bad_reload("pm.status_listen", " cannot change without a restart");
  if (settings.limits.table_bytes != current_->settings.limits.table_bytes)
    return bad_reload("limits.table", " cannot change without a restart");
  if (2 * max_worker_count(pool) > board_.slots().size())
    return bad_reload("pm.max_children", " cannot grow that much without a restart");
  return spec;
}

bool Reload::begin(SteadyTime now) {
  auto spec = load_next();
  // Keep at least one slot free for a respawn.
  if (spec && pool_.free_slot_count() <= max_worker_count(spec->configuration.settings.pool)) return false;
  if (!spec) {
    abort(spec.error().detail);
    return true;
  }
  next_ = std::make_unique<Generation>(++last_number_, std::move(*spec), current_->open_count());
  ready_deadline_ = now + options_.ready_timeout;
  pool_.fork_missing(*next_, now);
  log::notice("reload_started", {{"generation", std::to_string(next_->number)}});
  return true;
}

void Reload::tick(SteadyTime now) {
  if (!next_) return;
  if (pool_.all_ready(*next_))
    replaced_ = std::exchange(current_, std::move(next_));
  else if (now >= ready_deadline_)
    abort("the new workers were not ready in time");
  else
    pool_.fork_missing(*next_, now);
}

void Reload::reap(const WorkerDeath& death) {
  if (next_ && death.worker.generation == next_->number && !death.was_expected())
    abort("a new worker died before all were ready");
}

void Reload::abort(std::string reason) {
  if (next_) pool_.abandon_generation(next_->number, std::chrono::steady_clock::now());
  next_.reset();
  failure_ = std::move(reason);
}

SteadyTime Reload::next_deadline(SteadyTime now, SteadyTime awake_since) {
  if (!next_) return SteadyTime::max();
  return std::min(ready_deadline_, pool_.next_deadline(next_.get(), now, awake_since));
}

}  // namespace freshet
