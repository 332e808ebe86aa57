// Scans a live Redis in small steps.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/redis/blocking_redis.h"

namespace freshet::ctl {

inline constexpr std::size_t kPageSize = 160;  // keys or members per step; at most three commands each

// Runs the pipeline. 1 RTT. An error of a single command (wrong type) is left in its reply; an
// error that concerns all of them (READONLY, NOAUTH, …) is returned.
Result<redis::Replies> run_pipeline(redis::BlockingRedis& redis, const redis::Pipeline& pipeline);

// Runs SCAN (with an empty `key`), SSCAN or ZSCAN to the end. `handle_page` gets at most kPageSize
// keys or members per call, some possibly twice. 1 RTT per page.
using PageHandler = std::function<Result<void>(const std::vector<std::string>&)>;
Result<void> scan_all(redis::BlockingRedis& redis, std::string_view command, const std::string& key,
                      const PageHandler& handle_page);

}  // namespace freshet::ctl
