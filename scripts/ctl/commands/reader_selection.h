// Who a channel is filled for: those who are named, or those who open it and have read what they
// got.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::ctl {

// Ids one a line (empty lines count for nothing), then those of `named`. Errors: kInvalid "bad_id",
// with the line in the detail; kNotFound "no_file".
Result<std::vector<ReaderId>> read_reader_ids(const std::vector<std::string>& named, const std::string& file);

// True when the newest item of a timeline, at `head` (µs), came after its reader was last there: no
// use to put more on top. What came within the second of that visit counts as after it.
bool has_unread(std::int64_t head, UnixSeconds last_read);

struct ActiveReaders {
  std::int64_t readers = 0;  // who opened the channel within fill.active
  std::int64_t skipped = 0;  // of them those with something unread
};
// Calls `serve` for every active reader without anything unread, in any order, perhaps twice; stops
// at its first error and returns it. Bounded memory; 2 RTT for every 160 who ever opened the
// channel.
Result<void> for_each_active_reader(redis::BlockingRedis& redis, const redis::Keys& keys, const std::string& channel,
                         UnixSeconds since, ActiveReaders& counts,
                         const std::function<Result<void>(const ReaderId&)>& serve);

}  // namespace freshet::ctl
