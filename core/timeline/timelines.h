// Timelines as their clients meet them: pages also while Redis is away, and pushes of
// which some items cannot be pushed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/timeline/ports.h"

namespace freshet::timeline {

struct ServedPage {
  TimelinePage page;
  bool degraded = false;
};
// A page with the reason of each item: in the channel of follows (`follows`) that its author is
// followed, elsewhere what feed::FeedReasons says, except that nothing is rising: an item stands
// here for a month. While Redis is away an empty page that leaves the client where it is: the
// cursor that came, and has_more. Cost and other errors as WaterfallStore::read().
Task<Result<ServedPage>> read_page(TimelineStore& store, const PageQuery& query, bool follows);
ServedPage degraded_page(const PageQuery& query);  // that one

struct RefusedItem {
  ItemId item;
  std::string_view code;  // "hidden_item": hidden or deleted; "unknown_item": with items.unknown = reject
};

// An item that cannot be pushed is refused by name, and the others are pushed; none need be left.
struct PushReport {
  PushResult counts;
  std::vector<RefusedItem> refused;  // in their order
};
// 1 RTT for the items, 1 for every 500 items times readers, one more when an item is refused.
// `time_left` is asked before each of them. Errors: kUnavailable "budget"; the stores'. After an
// error some readers were served; the same push again serves the rest. A timeline that cannot be
// written stands in the way of no other.
Task<Result<PushReport>> push_items(TimelineStore& store, items::ItemStore& items, const PushRequest& push,
                                     const std::function<bool()>& has_time);

struct PublishResult {
  std::string job;  // empty: none of the items could be published, and nothing was
  std::vector<RefusedItem> refused;
};
// 2 RTT, 3 when an item is refused. Errors: the stores'.
Task<Result<PublishResult>> publish_items(TimelineStore& store, items::ItemStore& items, FollowStore& follows,
                                      const AuthorId& author, const std::vector<ItemId>& published);

}  // namespace freshet::timeline
