#include "scripts/ctl/backup/repeat_erasures.h"

#include <algorithm>

#include "core/redis/keys.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {
namespace {

class ErasureRepeater {
 public:
  ErasureRepeater(redis::BlockingRedis& redis, database::Database& database, const Settings& settings,
                  const readers::ReaderPseudonyms& hashes, const ErasureSet& erasures)
      : redis_(redis),
        database_(database),
        keys_(settings.redis),
        tombstone_ttl_(redis::tombstone_ttl(settings.spool.max_age)),
        hashes_(hashes),
        erasures_(erasures) {
    for (const ReaderId& each : erasures.readers) found_.insert(each.str());
  }

  Result<std::int64_t> run() {
    if (!erasures_.pseudonyms.empty() && hashes_.erasure) {
      if (auto ok = find_in_database(); !ok) return tl::unexpected(ok.error());
      if (auto ok = find_in_redis(); !ok) return tl::unexpected(ok.error());
    }
    if (found_.empty()) return 0;
    for (const auto step :
         {&ErasureRepeater::erase_keys, &ErasureRepeater::erase_rows, &ErasureRepeater::bump_epochs}) {
      if (auto ok = (this->*step)(); !ok) return tl::unexpected(ok.error());
    }
    return static_cast<std::int64_t>(found_.size());
  }

 private:
  void check_reader(std::string_view id) {
    if (id.empty() || !checked_.insert(std::string(id)).second) return;
    const auto is_erased = [&](const std::string& name) {
      return erasures_.pseudonyms.contains(hashes_.erasure(ReaderId::trusted(name)));
    };
    if (is_erased(std::string(id)) || std::ranges::any_of(former_ids(std::string(id)), is_erased))
      found_.emplace(id);
  }

  std::set<std::string> former_ids(const std::string& id) const {
    const auto found = erasures_.former_ids.find(id);
    return found == erasures_.former_ids.end() ? std::set<std::string>() : found->second;
  }

  Result<void> find_in_database() {
    database::ReaderRows& rows = database_.readers();
    auto ok = rows.for_each_interaction([&](const readers::ReaderEvent& each) -> Result<void> {
      check_reader(each.reader.view());
      return {};
    });
    if (!ok) return ok;
    ok = rows.for_each_dismissal([&](const readers::DismissalRecord& each) -> Result<void> {
      check_reader(each.dismissal.reader.view());
      return {};
    });
    if (!ok) return ok;
    return rows.for_each_follow([&](const readers::Follow& each) -> Result<void> {
      check_reader(each.reader.view());
      return {};
    });
  }

  Result<void> find_in_redis() {
    return scan_all(redis_, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
      for (const std::string& key : page) {
        const redis::KeyPattern* const pattern = keys_.pattern_of(key);
        if (pattern == nullptr || pattern->subject == redis::Subject::kNone) continue;
        if (pattern->subject == redis::Subject::kReader) {
          check_reader(redis::key_segment(*keys_.strip_prefix(key), pattern->segment));
          continue;
        }
        if (pattern->subject == redis::Subject::kValue) {
          redis::Pipeline read;
          read.add("GET", key);
          FRESHET_TRY(value, redis_.call_all(read));
          check_reader(value->front().text());
          continue;
        }
        const char* const command = pattern->type == "zset" ? "ZSCAN" : "SSCAN";
        auto ok =
            scan_all(redis_, command, key, [&](const std::vector<std::string>& members) -> Result<void> {
              for (const std::string& each : members) check_reader(each);
              return {};
            });
        if (!ok) return ok;
      }
      return {};
    });
  }

  Result<void> erase_keys() {
    readers::ReaderNames names;
    for (const std::string& each : found_) {
      readers::add_reader_names(names, ReaderId::trusted(each), hashes_);
      for (const std::string& former : former_ids(each))
        readers::add_reader_names(names, ReaderId::trusted(former), hashes_);
    }
    std::string cursor = "0";
    do {
      FRESHET_TRY(page, redis::run_sync(readers::scan_personal_keys(redis_, keys_, names, cursor)));
      for (const std::string& each : page->merged_readers) {
        if (auto ok = database_.put_erasure(each, wall_now()); !ok) return ok;
      }
      auto erased =
          redis::run_sync(readers::erase_personal_keys(redis_, keys_, names, *page, tombstone_ttl_));
      if (!erased) return erased;
      cursor = page->cursor;
    } while (cursor != "0");
    return {};
  }

  Result<void> erase_rows() {
    std::vector<ReaderId> readers;
    for (const std::string& each : found_) readers.push_back(ReaderId::trusted(each));
    if (auto ok = database_.begin(); !ok) return ok;
    const auto rows = database_.readers().erase(readers);
    Result<void> ok = rows ? Result<void>() : tl::unexpected(rows.error());
    for (const ReaderId& each : readers) {
      for (const std::string& name : hashes_.all(each)) {
        if (ok) ok = database_.put_erasure(name, wall_now());
      }
    }
    if (ok) ok = database_.commit();
    if (!ok) {
      database_.rollback();
      return ok;
    }
    return database_.truncate_wal();
  }

  // Makes the seen filter forget the readers: its entries are stored under the old epoch.
  Result<void> bump_epochs() {
    if (!hashes_.erasure) return {};
    redis::Pipeline out;
    for (const std::string& each : found_) {
      const std::string key = keys_.seen_epoch(hashes_.erasure(ReaderId::trusted(each)));
      out.add("INCR", key).add("EXPIRE", key, redis::kSeenEpochTtl.count());
    }
    const auto replies = run_pipeline(redis_, out);
    return replies ? Result<void>() : tl::unexpected(replies.error());
  }

  redis::BlockingRedis& redis_;
  database::Database& database_;
  const redis::Keys keys_;
  const seconds tombstone_ttl_;
  const readers::ReaderPseudonyms& hashes_;
  const ErasureSet& erasures_;
  std::unordered_set<std::string> checked_, found_;  // reader ids
};

}  // namespace

Result<std::int64_t> repeat_erasures(redis::BlockingRedis& redis, database::Database& database,
                                     const Settings& settings, const readers::ReaderPseudonyms& hashes,
                                     const ErasureSet& erasures) {
  return ErasureRepeater(redis, database, settings, hashes, erasures).run();
}

}  // namespace freshet::ctl
