// feed::Users on Redis and the recorder's database.
#pragma once

#include <functional>
#include <string>

#include "core/async/blocking_pool.h"
#include "core/config/settings.h"
#include "core/readers/personal_keys.h"
#include "core/readers/ports_users.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::readers {

inline constexpr std::size_t kMostExportedKeys = 1000;
inline constexpr std::int64_t kMostExportedValues = 5000;  // of a list or ZSET; others are capped lower
inline constexpr std::int64_t kMostExportedRows = 20000;   // interactions; likewise dismissals and follows

class RedisUsers final : public Users {
 public:
  // All references must outlive this. `redis`: a connection with patience. `pool`: the database is read on
  // it.
  RedisUsers(redis::Redis& redis, BlockingPool& pool, const Settings& settings, redis::Keys keys,
             ReaderHashes hashes, std::function<std::string()> new_job_id);
  Task<Result<Export>> gather(const ReaderId& reader, std::int64_t from) override;
  Task<Result<std::string>> forget(const ReaderId& reader) override;
  Task<Result<Job>> job(const EventId& id) override;

 private:
  Task<Result<void>> read_keys(const std::vector<std::string>& keys, Export& out);
  Task<Result<void>> read_members(const std::vector<Membership>& sets, const Names& names, Export& out);
  Task<void> read_rows(const ReaderId& reader, std::int64_t from, Export& out);

  redis::Redis& redis_;
  BlockingPool& pool_;
  const RecorderSettings recorder_;
  const redis::Keys keys_;
  const ReaderHashes hashes_;
  const std::function<std::string()> new_job_id_;
};

}  // namespace freshet::readers
