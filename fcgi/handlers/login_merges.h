// Merges a visitor into the account that they sign in to (identity.merge_on_login).
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/readers/personal_data.h"

namespace freshet::handlers {

// Cache of one process: visitors whose cookie came with a signed-in reader.
class LoginMerges {
 public:
  using Clock = std::chrono::steady_clock;
  // `users` must outlive this, and complete its calls before this is destroyed.
  explicit LoginMerges(readers::PersonalData& users) : users_(users) {}

  // Call with each such request. Returns at once; looks for the visitor's data asynchronously, and
  // starts a merge if there is any, but not again within kRecheckInterval or, while a merge runs,
  // kRunningInterval. Returns true once everything is with the account: the visitor needs a new
  // cookie.
  bool note(const VisitorId& visitor, const ReaderId& account, Clock::time_point now = Clock::now());

 private:
  static constexpr std::chrono::seconds kRecheckInterval{60}, kRunningInterval{1};
  static constexpr std::size_t kMaxVisitors = 10000;
  struct Known {
    bool moved = false;
    Clock::time_point valid_until;
  };
  Task<void> look(VisitorId visitor, ReaderId account);

  readers::PersonalData& users_;
  std::unordered_map<VisitorId, Known> visitors_;
};

}  // namespace freshet::handlers
