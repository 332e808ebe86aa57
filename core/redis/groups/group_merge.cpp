#include "core/redis/groups/group_merge.h"

#include <algorithm>
#include <utility>

#include "core/redis/fields.h"

namespace freshet::redis {

std::vector<Scored> scored(const Reply& members, std::int64_t at) {
  std::vector<Scored> out;
  for (std::size_t i = 0; i + 1 < members.size(); i += 2)
    out.push_back({std::string(text_at(members, i)), parse_or_zero<double>(text_at(members, i + 1)), at++});
  return out;
}

// --- GroupMerge

GroupMerge::GroupMerge(const std::vector<std::int64_t>& from) : parts_(from.size()) {
  for (std::size_t i = 0; i < from.size(); ++i) parts_[i].read = from[i];
}

std::vector<unsigned> GroupMerge::waits_for() const {
  std::vector<unsigned> out;
  for (unsigned i = 0; i < parts_.size(); ++i) {
    if (parts_[i].waiting.empty() && !parts_[i].at_end) out.push_back(i);
  }
  return out;
}

void GroupMerge::give(unsigned group, std::vector<Scored> kept, std::int64_t read, bool at_end) {
  Part& part = parts_[group];
  for (Scored& each : kept) part.waiting.push_back(std::move(each));
  part.read += read;
  part.at_end = at_end;
}

std::optional<Scored> GroupMerge::take() {
  Part* best = nullptr;
  for (Part& each : parts_) {
    if (each.waiting.empty() && !each.at_end) return std::nullopt;
    if (each.waiting.empty()) continue;
    if (best == nullptr || stands_before(each.waiting.front(), best->waiting.front())) best = &each;
  }
  if (best == nullptr) return std::nullopt;
  Scored out = std::move(best->waiting.front());
  best->waiting.pop_front();
  return out;
}

bool GroupMerge::at_end() const {
  return std::ranges::all_of(parts_, [](const Part& each) { return each.at_end && each.waiting.empty(); });
}

std::vector<std::int64_t> GroupMerge::taken() const {
  std::vector<std::int64_t> out;
  for (const Part& each : parts_) out.push_back(each.waiting.empty() ? each.read : each.waiting.front().at);
  return out;
}

// --- GroupHeads

GroupHeads::GroupHeads(const Keys& keys, std::int64_t count, Name name, std::optional<std::int64_t> from)
    : keys_(keys),
      count_(count),
      name_(name),
      from_(from),
      merge_(std::vector<std::int64_t>(keys.groups())),
      asked_(merge_.waits_for()) {}

void GroupHeads::append(Pipeline& out) {
  const bool only = keys_.groups() == 1;
  const std::int64_t share = share_of(count_, keys_.groups());
  for (const unsigned each : asked_) {
    const std::string key = name_(keys_.group(each));
    const std::int64_t at = merge_.read(each);
    out.command((from_ ? 7U : 4U) + (only ? 0U : 1U));
    if (from_)
      out.arg("ZREVRANGEBYSCORE").arg(key).arg(*from_).arg("-inf").arg("LIMIT").arg(at).arg(share);
    else
      out.arg("ZREVRANGE").arg(key).arg(at).arg(at + share - 1);
    if (!only) out.arg("WITHSCORES");
  }
}

void GroupHeads::take(const Reply*& at) {
  const std::vector<unsigned> asked = std::exchange(asked_, {});
  if (keys_.groups() == 1) {
    for (std::size_t i = 0; i < at->size(); ++i) members_.emplace_back(text_at(*at, i));
    ++at;
    return;
  }
  const std::int64_t share = share_of(count_, keys_.groups());
  for (const unsigned each : asked) {
    auto found = scored(*at++, merge_.read(each));
    const std::int64_t read = std::ssize(found);
    merge_.give(each, std::move(found), read, read < share);
  }
  while (std::ssize(members_) < count_) {
    auto next = merge_.take();
    if (!next) break;
    // The ZSET may move between two reads.
    if (std::ranges::find(members_, next->member) == members_.end())
      members_.push_back(std::move(next->member));
  }
  if (std::ssize(members_) < count_) asked_ = merge_.waits_for();
}

Task<Result<void>> read_rest(Redis& redis, std::span<GroupHeads> lists) {
  while (std::ranges::any_of(lists, &GroupHeads::is_short)) {
    Pipeline more;
    for (GroupHeads& each : lists) each.append(more);
    FRESHET_CO_TRY(replies, co_await run_all(redis, more));
    const Reply* at = replies->data();
    for (GroupHeads& each : lists) {
      if (each.is_short()) each.take(at);
    }
  }
  co_return Result<void>();
}

}  // namespace freshet::redis
