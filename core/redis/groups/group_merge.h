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

struct Scored {
  std::string member;
  double score = 0;
  std::int64_t at = 0;  // how many of its group stand before it
};
// Highest first; equals as ZREVRANGE has them.
inline bool stands_before(const Scored& a, const Scored& b) {
  return a.score != b.score ? a.score > b.score : a.member > b.member;
}
// Of the reply to ZREVRANGE … WITHSCORES from `at` on.
std::vector<Scored> scored(const Reply& members, std::int64_t at);

// Pure. Each group gives its members highest first; take() gives those of all likewise.
class GroupMerge {
 public:
  // `from`: how many of each group are left out; its size is the number of groups.
  explicit GroupMerge(const std::vector<std::int64_t>& from);

  // Groups that must give more before take() gives the next; none: it does, or all are at their
  // end.
  std::vector<unsigned> waits_for() const;
  // How many of the group were read.
  std::int64_t read(unsigned group) const { return parts_[group].read; }
  // The next `read` members of the group, of which `kept` shall be given; at_end: there are no
  // others.
  void give(unsigned group, std::vector<Scored> kept, std::int64_t read, bool at_end);
  // The next; nullopt while waits_for() names groups, or when nothing is left.
  std::optional<Scored> take();
  bool at_end() const;
  // How many of each group came before what take() gives next.
  std::vector<std::int64_t> taken() const;

 private:
  struct Part {
    std::deque<Scored> waiting;
    std::int64_t read = 0;
    bool at_end = false;
  };
  std::vector<Part> parts_;
};

// How many members are read of each of `groups` for `count` of all: its share, and some, since
// shares are not equal.
constexpr std::int64_t share_of(std::int64_t count, unsigned groups) {
  constexpr std::int64_t kSpare = 14;
  return groups == 1 ? count : count / groups + kSpare;
}

// The first `count` members of a ZSET of each group, highest first. On one Redis one command, which
// asks for no scores.
class GroupHeads {
 public:
  // Which ZSET. `from`: of no higher score. `keys` outlives this.
  using Name = std::string (*)(const GroupKeys& of);
  GroupHeads(const Keys& keys, std::int64_t count, Name name, std::optional<std::int64_t> from = {});

  // What is to be asked next: nothing when all is known.
  void append(Pipeline& out);
  // The replies, of which the first is at `at`; moves it behind the last.
  void take(const Reply*& at);
  // append() has more to ask, which is seldom, and never on one Redis.
  bool is_short() const { return !asked_.empty(); }
  // REQUIRES: not is_short().
  const std::vector<std::string>& members() const { return members_; }

 private:
  const Keys& keys_;
  const std::int64_t count_;
  const Name name_;
  const std::optional<std::int64_t> from_;
  GroupMerge merge_;
  std::vector<unsigned> asked_;  // groups that append() asks
  std::vector<std::string> members_;
};

// Asks for what lists are short of. No round trip when none is, else one or two.
Task<Result<void>> read_rest(Redis& redis, std::span<GroupHeads> lists);

}  // namespace freshet::redis
