// A command about many articles, whose keys are cut into groups: as many commands as there are
// groups with some of them, and what each article's own reply is.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/redis/command.h"
#include "core/redis/fields.h"
#include "core/redis/keys.h"

namespace freshet::redis {

class ByGroup {
 public:
  // `ids` outlive this.
  ByGroup(const Keys& keys, std::vector<std::string_view> ids)
      : keys_(keys), members_(keys.groups()), place_(ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      auto& of = members_[keys.group_of(ids[i])];
      place_[i] = {keys.group_of(ids[i]), of.size()};
      of.push_back(ids[i]);
    }
    std::size_t sent = 0;
    std::vector<std::size_t> number(members_.size());
    for (std::size_t g = 0; g < members_.size(); ++g) number[g] = members_[g].empty() ? 0 : sent++;
    for (auto& [reply, at] : place_) reply = number[reply];
    commands_ = sent;
  }

  // ZMSCORE, SMISMEMBER, ZREM and their like, of the key that `name` gives of a group.
  template <class Name>
  void append(Pipeline& out, std::string_view command, const Name& name) const {
    for (unsigned g = 0; g < members_.size(); ++g) {
      if (members_[g].empty()) continue;
      out.command(2 + members_[g].size()).arg(command).arg(name(keys_.group(g)));
      for (const std::string_view each : members_[g]) out.arg(each);
    }
  }
  // How many commands each append() is.
  std::size_t commands() const { return commands_; }
  // What was answered of ids[i]. `replies`: the first of an append().
  std::string_view text(const Reply* replies, std::size_t i) const {
    return text_at(replies[place_[i].first], place_[i].second);
  }
  bool is_one(const Reply* replies, std::size_t i) const {
    return replies[place_[i].first][place_[i].second].integer().value_or(0) == 1;
  }

 private:
  const Keys& keys_;
  std::vector<std::vector<std::string_view>> members_;      // of each group
  std::vector<std::pair<std::size_t, std::size_t>> place_;  // of each id: which reply, and where in it
  std::size_t commands_ = 0;
};

}  // namespace freshet::redis
