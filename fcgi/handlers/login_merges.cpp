#include "fcgi/handlers/login_merges.h"

#include <exception>

#include "core/async/task.h"

namespace freshet::handlers {

bool LoginMerges::note(const VisitorId& visitor, const ReaderId& account, Clock::time_point now) {
  const auto known = visitors_.find(visitor);
  if (known != visitors_.end() && now < known->second.valid_until) return known->second.moved;
  if (visitors_.size() >= kMaxVisitors) visitors_.clear();
  visitors_[visitor] = {false, now + kRecheckInterval};
  spawn(look(visitor, account), [](std::exception_ptr) {});
  return false;
}

Task<void> LoginMerges::look(VisitorId visitor, ReaderId account) {
  const ReaderId reader = anonymous_reader(visitor);
  const auto found = co_await users_.merge_on_login(reader, account);
  if (!found || *found == readers::LoginMerge::kNothing) co_return;
  const bool moved = *found == readers::LoginMerge::kMoved;
  visitors_[visitor] = {moved, Clock::now() + (moved ? kRecheckInterval : kRunningInterval)};
}

}  // namespace freshet::handlers
