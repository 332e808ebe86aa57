// The last list of each query, in memory that a host's workers share: while Redis is unavailable,
// all of them serve the same one, even those that have never read it.
//
// Each query without a tag has a slot of its own. Lists of tags share the other slots; the least
// recently served one is evicted first. store() and load() never block: while another process holds
// the lock, nothing is stored or found.
#pragma once

#include <cstddef>
#include <memory>

#include "core/hot/hot_lists.h"

namespace freshet::handlers {

class LastLists {
 public:
  static constexpr std::size_t kMaxBytes = 128UL * 1024;  // of a list; longer ones are not stored
  static constexpr std::size_t kMaxTagged = 48;           // lists of a tag

  // Creates an empty table, which the processes forked afterwards share. A slot takes memory once
  // it holds a list. Throws std::system_error.
  LastLists();
  ~LastLists();
  LastLists(const LastLists&) = delete;
  LastLists& operator=(const LastLists&) = delete;

  void store(const hot::ListQuery& query, const hot::HotList& list);
  // Null if there is none.
  std::shared_ptr<const hot::HotList> load(const hot::ListQuery& query) const;
  // Drops all lists, because they may contain an item that was hidden or removed. Every worker
  // calls this when it hears of the change, so a list that a slower worker stores again is dropped
  // as well.
  void clear();

 private:
  struct Slot;
  struct Table;
  class Lock;
  Table* table_;
};

}  // namespace freshet::handlers
