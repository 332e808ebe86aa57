// Exact top N of a ZSET that is split into partitions, reading little more of each partition than
// its share. A partition is read again only while an unread member could still be among the top N.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/redis/command.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/redis/reply.h"

namespace freshet::redis {

struct ScoredMember {
  std::string member;
  double score = 0;
  std::int64_t offset = 0;  // number of members before it in its partition
};
// Highest score first; ties in the order of ZREVRANGE.
inline bool ranks_before(const ScoredMember& a, const ScoredMember& b) {
  return a.score != b.score ? a.score > b.score : a.member > b.member;
}
// Parses the reply to ZREVRANGE … WITHSCORES whose first member is at `offset`.
std::vector<ScoredMember> parse_scored_members(const Reply& members, std::int64_t offset);

// Merges sorted inputs, one per partition. Each gives its members highest first; pop() returns
// those of all in the same order. Pure.
class KWayMerge {
 public:
  // `offsets`: the number of members to skip in each input; one element per input.
  explicit KWayMerge(const std::vector<std::int64_t>& offsets);

  // Inputs that must be read before pop() can return the next member. Empty if it can, or if all
  // are exhausted.
  std::vector<unsigned> inputs_to_read() const;
  // The number of members read from the input.
  std::int64_t read_count(unsigned input) const { return inputs_[input].read_count; }
  // Adds the next members of an input: `members_read` were read, of which `members` passed the
  // caller's filters. at_end: there are no more.
  void add(unsigned input_index, std::vector<ScoredMember> members, std::int64_t members_read, bool at_end);
  // nullopt while inputs_to_read() is not empty, or at the end.
  std::optional<ScoredMember> pop();
  bool is_exhausted() const;
  // For each input, the number of members before the next one that pop() returns.
  std::vector<std::int64_t> consumed() const;

 private:
  struct Input {
    std::deque<ScoredMember> buffered;
    std::int64_t read_count = 0;
    bool at_end = false;
  };
  std::vector<Input> inputs_;
};

// How many members to read from each partition for the top `count` of all: an equal share plus a
// margin, since shares differ.
constexpr std::int64_t read_size(std::int64_t count, unsigned partitions) {
  constexpr std::int64_t kSpare = 14;
  return partitions == 1 ? count : count / partitions + kSpare;
}

// Top `count` members of a partitioned ZSET, highest first. On a single Redis this is one command
// without WITHSCORES.
class PartitionedTopN {
 public:
  // Returns the ZSET's key. `max_score`: skip members with a higher score. `keys` must outlive
  // this.
  using KeyName = std::string (*)(const PartitionKeys& keys);
  PartitionedTopN(const Keys& keys, std::int64_t count, KeyName key_name,
                  std::optional<std::int64_t> max_score = {});

  // Appends the commands to send next; none once the result is complete.
  void append(Pipeline& out);
  // Consumes the replies to append(), starting at `reply`, and advances `reply` past them.
  void consume(const Reply*& reply);
  // More must be read, which is rare and never happens on a single Redis.
  bool needs_more() const { return !to_read_.empty(); }
  // REQUIRES: !needs_more().
  const std::vector<std::string>& members() const { return members_; }

 private:
  const Keys& keys_;
  const std::int64_t count_;
  const KeyName key_name_;
  const std::optional<std::int64_t> max_score_;
  KWayMerge merge_;
  std::vector<unsigned> to_read_;  // partitions that the next append() reads
  std::vector<std::string> members_;
};

// Reads until every list is complete. No round trip if all are, else usually one or two.
Task<Result<void>> read_remaining(Redis& redis, std::span<PartitionedTopN> lists);

}  // namespace freshet::redis
