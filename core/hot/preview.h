// Previews a hot list under other settings, from the current counters. Writes, caches and counts
// nothing.
#pragma once

#include "core/config/settings.h"
#include "core/hot/hot_lists.h"
#include "core/hot/ports.h"

namespace freshet::hot {

// Only the top of the current rank is scored again.
inline constexpr std::size_t kMaxPreviewCandidates = 10'000;

using PreviewLists = std::vector<std::shared_ptr<const HotList>>;

// The list under each of `variants`, from the same counters: they differ only because of the
// settings. For a computed model, from the kMaxPreviewCandidates highest of the current rank; 1 RTT
// per 500 and 1 RTT per 100 of them. For views only with mode = current: exact, at the cost of
// building the lists and 1 RTT per 100 items (accumulated scores were decayed when they were
// counted, so no setting changes them). All references must outlive the task. Errors: kUnavailable
// if Redis is unavailable.
Task<Result<PreviewLists>> preview(HotStore& hot, items::CardCache& cards,
                                   const std::vector<Settings>& variants, const ListQuery& query,
                                   UnixSeconds now);

}  // namespace freshet::hot
