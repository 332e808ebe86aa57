#include "core/redis/schema.h"

#include "core/redis/fields.h"

namespace freshet::redis {

namespace {

Task<Result<void>> expect_groups(Redis& redis, const Keys& keys, Asks asks) {
  Pipeline look;
  if (asks == Asks::kServes) append_group_count(look, keys);
  look.add("GET", keys.group_count());
  FRESHET_CO_TRY(replies, co_await run_all(redis, look));
  const std::string found(replies->back().text()), ours = std::to_string(keys.groups());
  if (found.empty() || found == ours) co_return Result<void>();
  if (found == kRegrouping)
    co_return fail(ErrorCode::kConflict, "other_groups", {},
                   "the articles in Redis are between two numbers of groups: run `freshetctl regroup` again");
  co_return fail(ErrorCode::kConflict, "other_groups", {},
                 "the articles in Redis are in " + found + " groups, and redis.groups says " + ours +
                     ": change it, or stop every service and run `freshetctl regroup`");
}

}  // namespace

void append_group_count(Pipeline& out, const Keys& keys) {
  if (keys.in_cluster()) out.add("SET", keys.group_count(), keys.groups(), "NX");
}

// Whoever writes the first place writes both; the first schema had no number.
Task<Result<void>> expect_schema(Redis& redis, const Keys& keys, Asks asks) {
  Pipeline look;
  for (const GroupKeys& each : keys.every_group()) look.add("HMGET", each.meta(), "formula", "schema");
  FRESHET_CO_TRY(replies, co_await run_all(redis, look));
  std::string found;
  for (const Reply& meta : *replies) {
    const std::string there(text_at(meta, 1));
    const std::string of_group = there.empty() && !text_at(meta, 0).empty() ? "1" : there;
    if (!of_group.empty() && of_group != std::to_string(kSchema)) found = of_group;
  }
  if (found.empty() && !keys.in_cluster()) co_return Result<void>();
  if (found.empty()) {
    auto groups = co_await expect_groups(redis, keys, asks);
    co_return groups;
  }
  co_return fail(ErrorCode::kConflict, "other_schema", {},
                 "the data in Redis has schema " + found + ", and this program reads and writes schema " +
                     std::to_string(kSchema) + " alone: give it an empty Redis or another redis.key_prefix");
}

}  // namespace freshet::redis
