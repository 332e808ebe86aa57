// Former names of directives and commands. They still work, and each use prints one warning.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace freshet {

struct NameAlias {
  std::string_view former_name;
  std::string_view name;
};

inline constexpr auto kNameAliases = std::to_array<NameAlias>({
    // Directives.
    {"feedback.most", "feedback.max_items"},
    {"hot.first_dwell", "hot.max_initial_dwell"},
    {"limits.remember", "limits.contribution_ttl"},
    {"limits.remember_after", "limits.contribution_after"},
    {"limits.uv_per_network", "limits.pv_per_network"},
    {"list.floor", "list.min_score"},
    {"list.slice", "list.rebuild_interval"},
    {"list.snapshot", "list.worker_ttl"},
    {"pv.window", "hot.session_window"},
    {"recommend.snapshot", "recommend.trend_refresh"},
    {"redis.groups", "redis.partitions"},
    {"views.base", "views.base_hours"},
    // Commands of freshetctl.
    {"fill", "push-recommendations"},
    {"purge", "revert-visitor"},
    {"regroup", "repartition"},
    {"visitors", "top-contributors"},
});

// The alias with that former name, or nullptr. O(aliases).
constexpr const NameAlias* find_alias(std::string_view former_name) {
  const auto found = std::ranges::find(kNameAliases, former_name, &NameAlias::former_name);
  return found != kNameAliases.end() ? &*found : nullptr;
}

// The alias of that current name, or nullptr. O(aliases).
constexpr const NameAlias* alias_of(std::string_view name) {
  const auto found = std::ranges::find(kNameAliases, name, &NameAlias::name);
  return found != kNameAliases.end() ? &*found : nullptr;
}

}  // namespace freshet
