// Writes articles' scores to the ranks of all models, and their totals to the buckets of mode =
// current.
//
// Scores are a function of the article's hash (article.h) and are written asynchronously, many at
// once. Each write carries the version of the hash it was computed from and never replaces a later
// version, so the latest state wins in whatever order workers write.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/crash_journal.h"
#include "core/config/settings.h"
#include "core/hot/article.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/redis/write_queue.h"

namespace freshet::hot {

enum class RankTarget : std::uint8_t { kLive, kStaging };  // kStaging: the rank being rebuilt

// The values of model.parameters, as one string. A stored rank with others must be rebuilt.
std::string rank_parameters(const Model& model, const Settings& settings);
// The field of hot:rank:meta with the rank_parameters() of a stored rank, or of one being rebuilt.
std::string rank_meta_field(const Model& model, RankTarget target = RankTarget::kLive);

struct RankWrite {
  std::string id;
  std::optional<double> score;  // nullopt: not in the rank
  UnixSeconds published;        // for views: selects the bucket
  std::int64_t version = 0;
  bool has_counters = true;  // false: all counters are zero or expired
  double views_total = 0;    // 0: not in a bucket
};
RankWrite rank_write_for(const Model& model, std::string id, const Article& article,
                         const Settings& settings);
// One vector per model, in the order of kModels
using RankWrites = std::array<std::vector<RankWrite>, kModels.size()>;

// Selects which ranks to remove the article from if it has no score there: none, the computed ones,
// or all.
enum class RemovalPolicy : std::uint8_t { kNone, kComputed, kAll };
void add_rank_writes(RankWrites& to, const std::string& id, const Article& article, const Settings& settings,
                     RemovalPolicy removal);

// Maximum size of a rank in each partition: its share of list.max_members, plus some slack because
// articles are not spread evenly.
std::int64_t max_rank_members(const Settings& settings, const redis::Keys& keys);

// Appends script calls for each model and partition with writes; returns the number of calls for
// the first model. `now`: by Redis' clock, for the minimum score. Idempotent, and harmless when
// late. With kLive, ids also go to hot:unplaced if a stored rank has other parameters or is being
// rebuilt; with kStaging, only ranks that are being rebuilt are written. At most 500 writes per
// model at once.
std::size_t append_rank_writes(redis::Pipeline& out, const RankWrites& writes, UnixSeconds now,
                               const Settings& settings, const redis::Keys& keys,
                               RankTarget target = RankTarget::kLive);

// Ranks these articles by their current counters; leaves out hidden and unknown ones. 2 RTT per 500
// articles. Returns how many are in the first model's rank now.
Task<Result<std::int64_t>> rank_articles(redis::Redis& redis, std::span<const std::string> ids,
                                         const Settings& settings, const redis::Keys& keys,
                                         RankTarget target = RankTarget::kLive);

// Per-worker buffer of rank writes. Flushed kFlushInterval after the first write or at kMaxEntries
// of them. Keeps only the latest state of each article. What Redis has not accepted is sent again
// until it is kMaxAge old, at most half of kMaxEntries; but in a cluster, writes that only some
// nodes have not accepted are lost. Articles whose latest state the worker does not know are ranked
// by rank maintenance (rank_again). If the worker is killed, its pending writes are lost; `journal`
// tells other processes which.
class RankUpdater {
 public:
  static constexpr milliseconds kFlushInterval{250};
  static constexpr std::size_t kMaxEntries = 4096;
  static constexpr seconds kMaxAge{300};  // half of the time for which rank_update.lua keeps versions
  static constexpr int kRankAgainTimes = 2;
  static constexpr milliseconds kInFlightTtl{2000};  // an event's rank write is flushed sooner

  // All references must outlive this. Without `after` the caller must call flush(). `journal`:
  // crash journal that other processes read if the worker is killed; null: none.
  RankUpdater(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
              redis::RunAfter after = {}, CrashJournal* journal = nullptr);
  // Call before counting an event of the article.
  void mark_in_flight(std::string_view id) { in_flight_.add(id, CrashJournalWriter::Clock::now()); }
  // `now`: by Redis' clock.
  void add(const Model& model, RankWrite write, UnixSeconds now);
  void flush();
  // Call if an event of the article may have counted although its reply was lost: rank maintenance
  // then ranks the article by its counters, kRankAgainTimes times, since Redis may not have
  // executed the script yet. Keeps kMaxEntries ids; the scan over all articles does the rest.
  void rank_again(std::string id);
  // The ids to rank now. Afterwards end_rank_again() says whether they were.
  std::vector<std::string> begin_rank_again();
  void end_rank_again(bool succeeded);
  // Call when the worker exits and everything has been written.
  void clear_in_flight() { in_flight_.clear(); }
  // Writes and articles to rank.
  std::size_t pending() const { return pending_ + rank_again_.size(); }

 private:
  void keep(RankWrites writes);

  redis::WriteQueue& write_queue_;
  const Settings& settings_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  CrashJournalWriter in_flight_;
  std::array<std::unordered_map<std::string, RankWrite>, kModels.size()> writes_;
  std::size_t pending_ = 0;                          // of writes_
  std::unordered_map<std::string, int> rank_again_;  // id → how often it is still to be ranked
  UnixSeconds latest_event_time_{};                  // latest event time
};

}  // namespace freshet::hot
