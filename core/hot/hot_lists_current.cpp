// mode = current: the exact top k (core/hot/threshold_top_k.h) over the store's buckets.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/hot/hot_lists.h"
#include "core/hot/threshold_top_k.h"

namespace freshet::hot {

namespace {

// Tags are stored with the items, not in the buckets.
Task<Result<void>> mark_eligible(items::CardCache& cards, const TagName& tag_key,
                                 std::vector<CurrentMember>& members) {
  if (tag_key.empty() || members.empty()) co_return Result<void>();
  std::vector<ItemId> ids;
  ids.reserve(members.size());
  for (const CurrentMember& member : members) ids.push_back(member.item);
  FRESHET_CO_TRY(found, co_await cards.get(ids));
  std::string buffer;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& tags = (*found)[i]->tags;
    members[i].eligible &= std::any_of(tags.begin(), tags.end(), [&](const std::string& each) {
      return utf8::fold(each, buffer) == tag_key.view();
    });
  }
  co_return Result<void>();
}

}  // namespace

Task<Result<std::vector<ScoredItem>>> HotLists::scan_buckets(const ListQuery& query, UnixSeconds now) {
  if (!query.tag.empty()) {
    // Requests may name any tag, and without eligible articles every bucket is read to its end.
    FRESHET_CO_TRY(has_items, co_await hot_.has_items(query.tag));
    if (!*has_items) co_return std::vector<ScoredItem>();
  }
  FRESHET_CO_TRY(buckets, co_await hot_.buckets());
  std::optional<UnixSeconds> from;
  if (query.window.count() > 0) from = now - query.window;
  ThresholdTopK top(*buckets, kMaxListSize, now, settings_.views, from);
  const auto deadline = Clock::now() + settings_.gateway.request_budget;
  while (const auto read = top.next_read()) {
    if (Clock::now() > deadline) co_return fail(ErrorCode::kUnavailable, kOverBudget);
    FRESHET_CO_TRY(heads, co_await hot_.bucket_heads(read->buckets, read->offset, read->count));
    std::vector<CurrentMember> members;
    members.reserve(heads->size());
    for (const BucketMember& head : *heads)
      members.push_back({head.item, head.total, head.published, head.published <= now, head.partition});
    FRESHET_CO_TRY(marked, co_await mark_eligible(cards_, query.tag, members));
    top.add_members(*read, members);
  }
  std::vector<ScoredItem> best;
  for (CurrentScore& found : top.top()) best.push_back({std::move(found.item), found.score});
  co_return best;
}

}  // namespace freshet::hot
