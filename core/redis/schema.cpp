#include "core/redis/schema.h"

#include "core/redis/fields.h"

namespace freshet::redis {

// Whoever writes the first place writes both; the first schema had no number.
Task<Result<void>> expect_schema(Redis& redis, const Keys& keys) {
  Pipeline look;
  for (const GroupKeys& each : keys.every_group()) look.add("HMGET", each.meta(), "formula", "schema");
  FRESHET_CO_TRY(replies, co_await run_all(redis, look));
  std::string found;
  for (const Reply& meta : *replies) {
    const std::string there(text_at(meta, 1));
    const std::string of_group = there.empty() && !text_at(meta, 0).empty() ? "1" : there;
    if (!of_group.empty() && of_group != std::to_string(kSchema)) found = of_group;
  }
  if (found.empty()) co_return Result<void>();
  co_return fail(ErrorCode::kConflict, "other_schema", {},
                 "the data in Redis has schema " + found + ", and this program reads and writes schema " +
                     std::to_string(kSchema) + " alone: give it an empty Redis or another redis.key_prefix");
}

}  // namespace freshet::redis
