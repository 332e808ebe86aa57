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

#include "core/base/id_note.h"
#include "core/config/settings.h"
#include "core/hot/article.h"
#include "core/redis/deferred.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

// The parameters that places follow from, of all models, as one text: ranks of others are made
// anew.
std::string formula_argument(const Settings& settings);

struct Place {
  std::string id;
  std::optional<double> place;  // nullopt: none
  UnixSeconds published;        // of views it names the bucket
  std::int64_t version = 0;
  bool counted = true;     // false: nothing of it is
  double views_total = 0;  // 0: none in a bucket
};
Place place_in(const Model& model, std::string id, const Article& article, const Settings& settings);
using Places = std::array<std::vector<Place>, kModels.size()>;  // in the order of kModels

// Adds the places that the article has; of the ranks where it has none it leaves none, those of
// models with a base, or all.
enum class Leaves : std::uint8_t { kNone, kComputed, kAll };
void add_places(Places& to, const std::string& id, const Article& article, const Settings& settings,
                Leaves leaves);

// How many members a rank may have in each group: its share of list.max_members, and some, since
// shares are not equal.
std::int64_t most_of_group(const Settings& settings, const redis::Keys& keys);

enum class Rank : std::uint8_t { kServed, kNext };  // kNext: those that a rebuild makes

// A command for each group of each model that has any; returns how many are of the first model.
// `now`: by Redis' clock, for the floor. Harmless when repeated or late; that of kServed puts ids
// into hot:unplaced where ranks have other parameters. At most 500 of a model at once.
std::size_t append_places(redis::Pipeline& out, const Places& places, UnixSeconds now,
                          const Settings& settings, const redis::Keys& keys, Rank rank = Rank::kServed);

// Places these articles as they are now; one that is hidden or was never seen is left out. 2 RTT
// for every 500. Returns how many got a place by the first model.
Task<Result<std::int64_t>> place_articles(redis::Redis& redis, std::span<const std::string> ids,
                                          const Settings& settings, const redis::Keys& keys,
                                          Rank rank = Rank::kServed);

// Of a worker: what its events changed, written kEvery after the first of them, or when kMost
// articles wait. Of an article that comes again only the last state is kept.
class Placing {
 public:
  static constexpr milliseconds kEvery{250};
  static constexpr std::size_t kMost = 4096;
  static constexpr milliseconds kNoted{2000};  // from an event to its place it takes less

  // All must outlive this. Without `after` whoever uses it calls flush(). `note`: where others find
  // what a killed worker left unplaced; null: nowhere.
  Placing(redis::WriteQueue& deferred, const Settings& settings, redis::Keys keys, redis::RunAfter after = {},
          CrashJournal* note = nullptr);
  // Before an event of the article is counted.
  void expect(std::string_view id) { noted_.add(id, CrashJournalWriter::Clock::now()); }
  // `now`: as above.
  void add(const Model& model, Place place, UnixSeconds now);
  void flush();
  // The worker ends, and all is placed.
  void forget() { noted_.clear(); }
  std::size_t waiting() const { return waiting_; }

 private:
  redis::WriteQueue& deferred_;
  const Settings& settings_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  CrashJournalWriter noted_;
  std::array<std::unordered_map<std::string, Place>, kModels.size()> places_;
  std::size_t waiting_ = 0;
  UnixSeconds now_{};  // the latest that an event had
};

}  // namespace freshet::hot
