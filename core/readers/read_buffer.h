// Per-worker buffer of what readers read: views for their histories, and interests from long reads.
// Written to Redis asynchronously.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/readers/ports.h"
#include "core/redis/keys.h"
#include "core/redis/write_queue.h"

namespace freshet::readers {

class ReadBuffer {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;
  static constexpr milliseconds kPause{1000};         // between two writes for the same reader, at least
  static constexpr milliseconds kSweepInterval{250};  // how late reads that waited may be
  static constexpr std::size_t kReadersPerCall = 64;  // readers per script call
  static constexpr std::size_t kMaxReads = 2000;      // pending reads of all readers

  // All references must outlive this. Each call of `after` replaces the one before; without `after`
  // the owner flushes.
  ReadBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
             redis::RunAfter after = {}, Now now = std::chrono::steady_clock::now);

  // Both are written in the next iteration of the event loop, but at most once a second per reader:
  // up to 64 readers in one script call. No round trip. If the worker is killed before, they are
  // lost.

  // Records a report on a page view. A dwell time of feed.interest_min_dwell or more makes the item
  // the reader's newest interest. Lost if Redis is unavailable.
  void add_interest(const ReaderId& reader, const ItemId& item, milliseconds dwell);
  // Adds a view of a topic, now, to the reader's history. Spooled if Redis is unavailable.
  void add_view(const View& view);
  // Called for each view that followed one of another item by the same reader within half an hour,
  // once it is written, unless the reader's history has a view of `item` in the day before. Not
  // called for spooled views.
  using OnCovisit = std::function<void(const ItemId& before, const ItemId& item)>;
  void on_covisit(OnCovisit callback) { on_covisit_ = std::move(callback); }
  // Writes everything that is pending.
  void flush();
  std::size_t pending() const { return pending_; }  // reads

 private:
  struct Reader {
    std::vector<std::string> interests;  // items, newest last
    std::vector<View> views;             // with their times
    std::chrono::steady_clock::time_point write_from{};
    bool empty() const { return interests.empty() && views.empty(); }
  };
  using ReaderMap = std::unordered_map<std::string, Reader>;
  using Readers = std::vector<ReaderMap::value_type*>;
  Reader& add_read(const ReaderId& reader);
  void schedule();
  void wake();
  void sweep();
  void write(const Readers& readers);
  void report_covisits(const redis::Reply& items) const;

  redis::WriteQueue& write_queue_;
  const Settings& settings_;
  const redis::Keys keys_;
  const redis::RunAfter after_;
  const Now now_;
  OnCovisit on_covisit_;
  ReaderMap readers_;  // with pending reads, or written within the last second
  Readers due_;        // to be written in the next iteration
  std::chrono::steady_clock::time_point next_sweep_{};
  std::size_t pending_ = 0;
};

}  // namespace freshet::readers
