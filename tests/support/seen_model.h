// What seen_add.lua does, in C++: for tests and benchmarks of the seen-filter without Redis, and to compare
// the script with.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/feed/seen_layout.h"

namespace freshet::test {

class SeenModel {
 public:
  explicit SeenModel(int width) : width_(width), tables_(1) {}

  // `entries` as seen_entries() writes them. Newest first in each bucket of the last table that has room.
  void add(std::string_view entries) {
    std::map<unsigned, std::vector<std::string>> left;
    Table& last = tables_.back();
    const Table before = last;
    for (; !entries.empty(); entries.remove_prefix(step())) {
      const auto bucket = static_cast<unsigned char>(entries[0]);
      const std::string print(entries.substr(1, step() - 1));
      const auto& had = before[bucket];
      if (std::find(had.begin(), had.end(), print) != had.end()) continue;
      if (last[bucket].size() < feed::kMostInBucket) {
        last[bucket].insert(last[bucket].end() - static_cast<std::ptrdiff_t>(had.size()), print);
      } else {
        left[bucket].push_back(print);
      }
    }
    if (left.empty()) return;
    tables_.emplace_back();
    for (auto& [bucket, prints] : left) tables_.back()[bucket] = std::move(prints);
  }

  // As it lies in Redis.
  std::string bytes() const {
    std::string out(1, static_cast<char>(width_));
    for (const Table& table : tables_) {
      for (const auto& bucket : table) out += static_cast<char>(bucket.size());
      for (const auto& bucket : table) {
        for (const std::string& print : bucket) out += print;
      }
    }
    return out;
  }

 private:
  using Table = std::array<std::vector<std::string>, feed::kSeenBuckets>;
  std::size_t step() const { return static_cast<std::size_t>(width_) + 1; }
  int width_;
  std::vector<Table> tables_;
};

}  // namespace freshet::test
