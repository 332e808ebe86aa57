// Reading a Redis that serves meanwhile, in small pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/redis/blocking_redis.h"

namespace freshet::ctl {

inline constexpr std::size_t kPageSize = 160;  // keys or members looked at together; at most three commands each

// A refusal of one command (a key of another type) is left to the caller; a refusal of all
// (READONLY, NOAUTH, …) is an error. 1 RTT.
Result<redis::Replies> run_pipeline(redis::BlockingRedis& redis, const redis::Pipeline& pipeline);

// SCAN (with an empty `key`), SSCAN or ZSCAN to the end; `take` gets at most kPage keys or members
// at once, some perhaps twice. 1 RTT a page.
using PageHandler = std::function<Result<void>(const std::vector<std::string>&)>;
Result<void> scan_all(redis::BlockingRedis& redis, std::string_view command, const std::string& key,
                  const PageHandler& handle_page);

}  // namespace freshet::ctl
