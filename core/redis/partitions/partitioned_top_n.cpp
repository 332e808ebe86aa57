#include "core/redis/partitions/partitioned_top_n.h"

#include <algorithm>
#include <utility>

#include "core/redis/fields.h"

namespace freshet::redis {

std::vector<ScoredMember> parse_scored_members(const Reply& members, std::int64_t offset) {
  std::vector<ScoredMember> out;
  for (std::size_t i = 0; i + 1 < members.size(); i += 2)
    out.push_back(
        {std::string(string_at(members, i)), parse_or_zero<double>(string_at(members, i + 1)), offset++});
  return out;
}

KWayMerge::KWayMerge(const std::vector<std::int64_t>& offsets) : inputs_(offsets.size()) {
  for (std::size_t i = 0; i < offsets.size(); ++i) inputs_[i].read_count = offsets[i];
}

std::vector<unsigned> KWayMerge::inputs_to_read() const {
  std::vector<unsigned> out;
  for (unsigned i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].buffered.empty() && !inputs_[i].at_end) out.push_back(i);
  }
  return out;
}

void KWayMerge::add(unsigned input_index, std::vector<ScoredMember> members, std::int64_t members_read,
                    bool at_end) {
  Input& input = inputs_[input_index];
  for (ScoredMember& each : members) input.buffered.push_back(std::move(each));
  input.read_count += members_read;
  input.at_end = at_end;
}

std::optional<ScoredMember> KWayMerge::pop() {
  Input* best = nullptr;
  for (Input& each : inputs_) {
    if (each.buffered.empty() && !each.at_end) return std::nullopt;
    if (each.buffered.empty()) continue;
    if (best == nullptr || ranks_before(each.buffered.front(), best->buffered.front())) best = &each;
  }
  if (best == nullptr) return std::nullopt;
  ScoredMember out = std::move(best->buffered.front());
  best->buffered.pop_front();
  return out;
}

bool KWayMerge::is_exhausted() const {
  return std::ranges::all_of(inputs_, [](const Input& each) { return each.at_end && each.buffered.empty(); });
}

std::vector<std::int64_t> KWayMerge::consumed() const {
  std::vector<std::int64_t> out;
  for (const Input& each : inputs_)
    out.push_back(each.buffered.empty() ? each.read_count : each.buffered.front().offset);
  return out;
}

PartitionedTopN::PartitionedTopN(const Keys& keys, std::int64_t count, KeyName key_name,
                                 std::optional<std::int64_t> max_score)
    : keys_(keys),
      count_(count),
      key_name_(key_name),
      max_score_(max_score),
      merge_(std::vector<std::int64_t>(keys.partition_count())),
      to_read_(merge_.inputs_to_read()) {}

void PartitionedTopN::append(Pipeline& out) {
  const bool single = keys_.partition_count() == 1;
  const std::int64_t limit = read_size(count_, keys_.partition_count());
  for (const unsigned each : to_read_) {
    const std::string key = key_name_(keys_.partition(each));
    const std::int64_t offset = merge_.read_count(each);
    out.command((max_score_ ? 7U : 4U) + (single ? 0U : 1U));
    if (max_score_)
      out.arg("ZREVRANGEBYSCORE").arg(key).arg(*max_score_).arg("-inf").arg("LIMIT").arg(offset).arg(limit);
    else
      out.arg("ZREVRANGE").arg(key).arg(offset).arg(offset + limit - 1);
    if (!single) out.arg("WITHSCORES");
  }
}

void PartitionedTopN::consume(const Reply*& reply) {
  const std::vector<unsigned> partitions = std::exchange(to_read_, {});
  if (keys_.partition_count() == 1) {
    for (std::size_t i = 0; i < reply->size(); ++i) members_.emplace_back(string_at(*reply, i));
    ++reply;
    return;
  }
  const std::int64_t limit = read_size(count_, keys_.partition_count());
  for (const unsigned each : partitions) {
    auto members = parse_scored_members(*reply++, merge_.read_count(each));
    const std::int64_t read = std::ssize(members);
    merge_.add(each, std::move(members), read, read < limit);
  }
  while (std::ssize(members_) < count_) {
    auto next = merge_.pop();
    if (!next) break;
    // The ZSET may change between two reads.
    if (std::ranges::find(members_, next->member) == members_.end())
      members_.push_back(std::move(next->member));
  }
  if (std::ssize(members_) < count_) to_read_ = merge_.inputs_to_read();
}

Task<Result<void>> read_remaining(Redis& redis, std::span<PartitionedTopN> lists) {
  while (std::ranges::any_of(lists, &PartitionedTopN::needs_more)) {
    Pipeline more;
    for (PartitionedTopN& each : lists) each.append(more);
    FRESHET_CO_TRY(replies, co_await run_all(redis, more));
    const Reply* next_reply = replies->data();
    for (PartitionedTopN& each : lists) {
      if (each.needs_more()) each.consume(next_reply);
    }
  }
  co_return Result<void>();
}

}  // namespace freshet::redis
