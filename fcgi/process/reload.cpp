#include "fcgi/process/reload.h"

#include <algorithm>

#include "core/base/log.h"
#include "fcgi/process/child.h"

namespace freshet {
namespace {

tl::unexpected<Error> refused(const char* directive, const std::string& why) {
  return fail(ErrorCode::kInvalid, "bad_reload", directive, directive + why);
}

}  // namespace

Reload::Reload(Pool& pool, Scoreboard& board, const LoadFunction& load, ReloadRules rules,
               std::unique_ptr<Generation> first)
    : pool_(pool),
      board_(board),
      load_(load),
      rules_(rules),
      current_(std::move(first)),
      last_number_(current_->number) {}

std::vector<Generation*> Reload::all() {
  std::vector<Generation*> known{current_.get()};
  if (next_) known.push_back(next_.get());
  return known;
}

Generation* Reload::find(std::uint32_t number) {
  for (Generation* generation : all())
    if (generation->number == number) return generation;
  return nullptr;
}

Result<Plan> Reload::load_next() const {
  auto plan = load_();
  if (!plan) return plan;
  const auto& [settings, warnings] = plan->configuration;
  for (const std::string& warning : warnings) log::warning("configuration", {{"text", warning}});
  const PoolSettings& pool = settings.pool;
  const PoolSettings& serving = current_->settings.pool;
  if (auto ok = check_user(pool, rules_.allow_root); !ok) return tl::unexpected(ok.error());
  if (pool.listen != serving.listen) return refused("listen.address", " cannot change without a restart");
  if (rules_.with_status && pool.status_listen != serving.status_listen)
    return refused("pm.status_listen", " cannot change without a restart");
  if (plan->configuration.settings.limits.table_bytes != current_->settings.limits.table_bytes)
    return refused("limits.table", " cannot change without a restart");
  if (2 * worker_count(pool) > board_.slots().size())
    return refused("pm.max_children", " cannot grow so far without a restart");
  return plan;
}

bool Reload::begin(SteadyTime now) {
  auto plan = load_next();
  // At least one slot stays for a respawn.
  if (plan && pool_.free_slots() <= worker_count(plan->configuration.settings.pool)) return false;
  if (!plan) {
    give_up(plan.error().detail);
    return true;
  }
  next_ = std::make_unique<Generation>(++last_number_, std::move(*plan), current_->wanted());
  ends_ = now + rules_.ready_timeout;
  pool_.fork_missing(*next_, now);
  log::notice("reload_started", {{"generation", std::to_string(next_->number)}});
  return true;
}

void Reload::tick(SteadyTime now) {
  if (!next_) return;
  if (pool_.all_ready(*next_))
    replaced_ = std::exchange(current_, std::move(next_));
  else if (now >= ends_)
    give_up("the new workers were not ready in time");
  else
    pool_.fork_missing(*next_, now);
}

void Reload::reap(const Death& death) {
  if (next_ && death.worker.generation == next_->number && !death.expected())
    give_up("a new worker died before all were ready");
}

void Reload::give_up(std::string why) {
  if (next_) pool_.give_up(next_->number, std::chrono::steady_clock::now());
  next_.reset();
  failure_ = std::move(why);
}

SteadyTime Reload::next_deadline(SteadyTime now, SteadyTime watched_since) {
  if (!next_) return SteadyTime::max();
  return std::min(ends_, pool_.next_deadline(next_.get(), now, watched_since));
}

}  // namespace freshet
