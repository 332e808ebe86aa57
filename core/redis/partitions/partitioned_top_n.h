// The best of a ZSET that is cut into groups, exactly, though little more of each is read than it
// gives: a group is asked for more only while what it was not asked for could still be among the
// best.
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
  std::int64_t offset = 0;  // how many of its group stand before it
};
// Highest first; equals as ZREVRANGE has them.
inline bool ranks_before(const ScoredMember& a, const ScoredMember& b) {
  return a.score != b.score ? a.score > b.score : a.member > b.member;
}
// Of the reply to ZREVRANGE … WITHSCORES from `at` on.
std::vector<ScoredMember> parse_scored_members(const Reply& members, std::int64_t offset);

// Pure. Each group gives its members highest first; take() gives those of all likewise.
class KWayMerge {
 public:
  // `from`: how many of each group are left out; its size is the number of groups.
  explicit KWayMerge(const std::vector<std::int64_t>& offsets);

  // Groups that must give more before take() gives the next; none: it does, or all are at their
  // end.
  std::vector<unsigned> inputs_to_read() const;
  // How many of the group were read.
  std::int64_t read_count(unsigned input) const { return inputs_[input].read_count; }
  // The next `read` members of the group, of which `kept` shall be given; at_end: there are no
  // others.
  void add(unsigned input_index, std::vector<ScoredMember> members, std::int64_t members_read, bool at_end);
  // The next; nullopt while waits_for() names groups, or when nothing is left.
  std::optional<ScoredMember> pop();
  bool is_exhausted() const;
  // How many of each group came before what take() gives next.
  std::vector<std::int64_t> consumed() const;

 private:
  struct Input {
    std::deque<ScoredMember> buffered;
    std::int64_t read_count = 0;
    bool at_end = false;
  };
  std::vector<Input> inputs_;
};

// How many members are read of each of `groups` for `count` of all: its share, and some, since
// shares are not equal.
constexpr std::int64_t read_size(std::int64_t count, unsigned partitions) {
  constexpr std::int64_t kSpare = 14;
  return partitions == 1 ? count : count / partitions + kSpare;
}

// The first `count` members of a ZSET of each group, highest first. On one Redis one command, which
// asks for no scores.
class PartitionedTopN {
 public:
  // Which ZSET. `from`: of no higher score. `keys` outlives this.
  using KeyName = std::string (*)(const PartitionKeys& of);
  PartitionedTopN(const Keys& keys, std::int64_t count, KeyName key_name, std::optional<std::int64_t> max_score = {});

  // What is to be asked next: nothing when all is known.
  void append(Pipeline& out);
  // The replies, of which the first is at `at`; moves it behind the last.
  void consume(const Reply*& reply);
  // append() has more to ask, which is seldom, and never on one Redis.
  bool needs_more() const { return !to_read_.empty(); }
  // REQUIRES: not is_short().
  const std::vector<std::string>& members() const { return members_; }

 private:
  const Keys& keys_;
  const std::int64_t count_;
  const KeyName key_name_;
  const std::optional<std::int64_t> max_score_;
  KWayMerge merge_;
  std::vector<unsigned> to_read_;  // groups that append() asks
  std::vector<std::string> members_;
};

// Asks for what lists are short of. No round trip when none is, else one or two.
Task<Result<void>> read_remaining(Redis& redis, std::span<PartitionedTopN> lists);

}  // namespace freshet::redis
