// Places of articles in the ranks of all models, and of views in the buckets of mode = current.
// They follow from an article's hash (article.h) alone, and are written behind the events, many at
// once. Each carries the version of the hash that it was made from, and no earlier one replaces a
// later one; so in whatever order workers place an article, the last state is what stays.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/crash_journal.h"
#include "core/config/settings.h"
#include "core/hot/article.h"
#include "core/redis/write_queue.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

// The parameters that places follow from, of all models, as one text: ranks of others are made
// anew.
std::string params_fingerprint(const Settings& settings);

struct RankWrite {
  std::string id;
  std::optional<double> score;  // nullopt: none
  UnixSeconds published;        // of views it names the bucket
  std::int64_t version = 0;
  bool has_counters = true;     // false: nothing of it is
  double views_total = 0;  // 0: none in a bucket
};
RankWrite rank_write_for(const Model& model, std::string id, const Article& article, const Settings& settings);
using RankWrites = std::array<std::vector<RankWrite>, kModels.size()>;  // in the order of kModels

// Adds the places that the article has; of the ranks where it has none it leaves none, those of
// models with a base, or all.
enum class RemovalPolicy : std::uint8_t { kNone, kComputed, kAll };
void add_rank_writes(RankWrites& to, const std::string& id, const Article& article, const Settings& settings,
                RemovalPolicy removal);

// How many members a rank may have in each group: its share of list.max_members, and some, since
// shares are not equal.
std::int64_t max_rank_members(const Settings& settings, const redis::Keys& keys);

enum class RankTarget : std::uint8_t { kLive, kStaging };  // kNext: those that a rebuild makes

// A command for each group of each model that has any; returns how many are of the first model.
// `now`: by Redis' clock, for the floor. Harmless when repeated or late; that of kServed puts ids
// into hot:unplaced where ranks have other parameters. At most 500 of a model at once.
std::size_t append_rank_writes(redis::Pipeline& out, const RankWrites& writes, UnixSeconds now,
                          const Settings& settings, const redis::Keys& keys, RankTarget target = RankTarget::kLive);

// Places these articles as they are now; one that is hidden or was never seen is left out. 2 RTT
// for every 500. Returns how many got a place by the first model.
Task<Result<std::int64_t>> rank_articles(redis::Redis& redis, std::span<const std::string> ids,
                                          const Settings& settings, const redis::Keys& keys,
                                          RankTarget target = RankTarget::kLive);

// Of a worker: what its events changed, written kEvery after the first of them, or when kMost
// articles wait. Of an article that comes again only the last state is kept.
class RankUpdater {
 public:
  static constexpr milliseconds kFlushInterval{250};
  static constexpr std::size_t kMaxEntries = 4096;
  static constexpr milliseconds kInFlightTtl{2000};  // from an event to its place it takes less

  // All must outlive this. Without `after` whoever uses it calls flush(). `note`: where others find
  // what a killed worker left unplaced; null: nowhere.
  RankUpdater(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys, redis::RunAfter after = {},
          CrashJournal* journal = nullptr);
  // Before an event of the article is counted.
  void mark_in_flight(std::string_view id) { in_flight_.add(id, CrashJournalWriter::Clock::now()); }
  // `now`: as above.
  void add(const Model& model, RankWrite write, UnixSeconds now);
  void flush();
  // The worker ends, and all is placed.
  void clear_in_flight() { in_flight_.clear(); }
  std::size_t pending() const { return pending_; }

 private:
  redis::WriteQueue& write_queue_;
  const Settings& settings_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  CrashJournalWriter in_flight_;
  std::array<std::unordered_map<std::string, RankWrite>, kModels.size()> writes_;
  std::size_t pending_ = 0;
  UnixSeconds latest_event_time_{};  // the latest that an event had
};

}  // namespace freshet::hot
