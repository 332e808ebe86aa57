// Selects the readers to push recommendations to: named ones, or active ones without unread items.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"

namespace freshet::ctl {

// Reads ids, one per line (empty lines are skipped), then appends `named`. Errors: kInvalid
// "bad_id", with the line in the detail; kNotFound "no_file".
Result<std::vector<ReaderId>> read_reader_ids(const std::vector<std::string>& named, const std::string& file);

// True if the newest item of a timeline (score `head`, in µs) was pushed after the reader's last
// visit. `last_read` has a resolution of one second; an item pushed within that second counts as
// unread.
bool has_unread(std::int64_t head, UnixSeconds last_read);

struct ActiveReaders {
  std::int64_t readers = 0;  // opened the channel within fill.active
  std::int64_t skipped = 0;  // of these, with unread items
};
// Calls `serve` for every active reader without unread items, in any order, possibly twice. Stops
// at its first error and returns it. Bounded memory. 2 RTT per 160 readers who ever opened the
// channel.
Result<void> for_each_active_reader(redis::BlockingRedis& redis, const redis::Keys& keys,
                                    const std::string& channel, UnixSeconds since, ActiveReaders& counts,
                                    const std::function<Result<void>(const ReaderId&)>& serve);

}  // namespace freshet::ctl
