#include "scripts/ctl/commands/redis_scan.h"

#include <algorithm>

#include "core/redis/fields.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Replies;
using redis::Reply;
using redis::string_at;

namespace {

std::vector<std::string> strings(const Reply& array) {
  std::vector<std::string> out;
  out.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) out.emplace_back(string_at(array, i));
  return out;
}

}  // namespace

Result<Replies> run_pipeline(redis::BlockingRedis& redis, const Pipeline& pipeline) {
  return redis.call_each(pipeline);
}

Result<void> scan_all(redis::BlockingRedis& redis, std::string_view command, const std::string& key,
                      const PageHandler& handle_page) {
  const bool pairs = command == "ZSCAN";
  std::string cursor = "0";
  do {
    Pipeline scan;
    key.empty() ? scan.add(command, cursor, "COUNT", kPageSize)
                : scan.add(command, key, cursor, "COUNT", kPageSize);
    FRESHET_TRY(replies, run_pipeline(redis, scan));
    if (replies->front().is_error()) return {};
    cursor = string_at(replies->front(), 0);
    std::vector<std::string> found = strings(replies->front()[1]);
    if (pairs) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < found.size(); i += 2) found[count++].swap(found[i]);
      found.resize(count);
    }
    for (std::size_t from = 0; from < found.size(); from += kPageSize) {
      const auto begin = found.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end = found.begin() + static_cast<std::ptrdiff_t>(std::min(from + kPageSize, found.size()));
      if (auto ok = handle_page({begin, end}); !ok) return ok;
    }
  } while (cursor != "0");
  return {};
}

}  // namespace freshet::ctl
