// Timeline use cases: pages that degrade while Redis is unavailable, and pushes that report the
// items that cannot be pushed.
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
// A page with a reason for each item. In the follow channel (`follows`) the reason is the followed
// author; elsewhere those of feed::FeedReasons, except that nothing is "rising", since items stay
// in a timeline for a month. While Redis is unavailable, an empty page that leaves the client's
// position unchanged: the request's cursor, and has_more. Cost and other errors as
// TimelineStore::read().
Task<Result<ServedPage>> read_page(TimelineStore& store, const PageQuery& query, bool follows);
ServedPage degraded_page(const PageQuery& query);  // the page while Redis is unavailable

struct RefusedItem {
  ItemId item;
  // "hidden_item": hidden or deleted; "unknown_item": only with items.unknown = reject
  std::string_view code;
};

// Items that cannot be pushed are refused individually; the others, if any, are pushed.
struct PushReport {
  PushResult counts;
  std::vector<RefusedItem> refused;  // in request order
};
// 1 RTT for the items, one for every 500 (item, reader) pairs, one more if an item is refused.
// `has_time` is called before each round trip of pushes. Errors: kUnavailable "budget"; the
// stores'. After an error some readers were served; repeating the push serves the rest. A timeline
// that cannot be written does not affect the others.
Task<Result<PushReport>> push_items(TimelineStore& store, items::ItemStore& items, const PushRequest& push,
                                    const std::function<bool()>& has_time);

struct PublishResult {
  std::string job;  // empty if nothing was published because all items were refused
  std::vector<RefusedItem> refused;
};
// 2 RTT, 3 if an item is refused. Errors: the stores'.
Task<Result<PublishResult>> publish_items(TimelineStore& store, items::ItemStore& items, FollowStore& follows,
                                          const AuthorId& author, const std::vector<ItemId>& published);

}  // namespace freshet::timeline
