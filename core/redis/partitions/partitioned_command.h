// A command on many articles whose keys are partitioned: one command per partition that holds some
// of the articles, and access to each article's part of the replies.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/redis/command.h"
#include "core/redis/fields.h"
#include "core/redis/keys.h"

namespace freshet::redis {

class PartitionedCommand {
 public:
  // `ids` must outlive this.
  PartitionedCommand(const Keys& keys, std::vector<std::string_view> ids)
      : keys_(keys), ids_by_partition_(keys.partition_count()), reply_positions_(ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      auto& partition_ids = ids_by_partition_[keys.partition_of(ids[i])];
      reply_positions_[i] = {keys.partition_of(ids[i]), partition_ids.size()};
      partition_ids.push_back(ids[i]);
    }
    std::size_t commands = 0;
    std::vector<std::size_t> reply_index(ids_by_partition_.size());
    for (std::size_t g = 0; g < ids_by_partition_.size(); ++g)
      reply_index[g] = ids_by_partition_[g].empty() ? 0 : commands++;
    for (auto& [reply, at] : reply_positions_) reply = reply_index[reply];
    command_count_ = commands;
  }

  // Appends a command such as ZMSCORE, SMISMEMBER or ZREM on the key that `key_name` returns for
  // each partition.
  template <class Name>
  void append(Pipeline& out, std::string_view command, const Name& key_name) const {
    for (unsigned g = 0; g < ids_by_partition_.size(); ++g) {
      if (ids_by_partition_[g].empty()) continue;
      out.command(2 + ids_by_partition_[g].size()).arg(command).arg(key_name(keys_.partition(g)));
      for (const std::string_view each : ids_by_partition_[g]) out.arg(each);
    }
  }
  // The number of commands that each append() adds.
  std::size_t command_count() const { return command_count_; }
  // The reply for ids[i]. `replies` points to the first reply of an append().
  std::string_view text(const Reply* replies, std::size_t i) const {
    return string_at(replies[reply_positions_[i].first], reply_positions_[i].second);
  }
  bool is_one(const Reply* replies, std::size_t i) const {
    return replies[reply_positions_[i].first][reply_positions_[i].second].integer().value_or(0) == 1;
  }

 private:
  const Keys& keys_;
  std::vector<std::vector<std::string_view>> ids_by_partition_;
  // For each id: the reply and the element in it.
  std::vector<std::pair<std::size_t, std::size_t>> reply_positions_;
  std::size_t command_count_ = 0;
};

}  // namespace freshet::redis
