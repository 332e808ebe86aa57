#include "core/redis/schema.h"

#include "core/redis/fields.h"

namespace freshet::redis {

// Whoever writes the first place writes both; the first schema had no number.
Task<Result<void>> expect_schema(Redis& redis, const Keys& keys) {
  Pipeline look;
  look.add("HMGET", keys.rank_meta(), "formula", "schema");
  FRESHET_CO_TRY(meta, co_await run_one(redis, look));
  const std::string there(text_at(*meta, 1));
  const std::string found = there.empty() && !text_at(*meta, 0).empty() ? "1" : there;
  if (found.empty() || found == std::to_string(kSchema)) co_return Result<void>();
  co_return fail(ErrorCode::kConflict, "other_schema", {},
                 "the data in Redis has schema " + found + ", and this program reads and writes schema " +
                     std::to_string(kSchema) + " alone: give it an empty Redis or another redis.key_prefix");
}

}  // namespace freshet::redis
