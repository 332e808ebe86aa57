#include "core/feed/seen_redisbloom.h"

#include <algorithm>
#include <cmath>

#include "core/feed/seen_layout.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::feed {
namespace {

using std::chrono::days;

constexpr std::size_t kMaxItemsPerScript = 100;  // impressions per script call

// Prefixed with the length of the reader's id, "5:alice:7", so that it is unambiguous for all ids.
std::string filter_member(const ReaderId& reader, const ItemId& item) {
  return std::to_string(reader.view().size()) + ":" + reader.str() + ":" + item.str();
}

// Reads a field from the reply of BF.INFO: name, value, name, value …
std::int64_t info_field(const redis::Reply& reply, std::string_view name) {
  for (std::size_t i = 0; i + 1 < reply.size(); i += 2) {
    if (redis::string_at(reply, i) == name) return reply[i + 1].integer().value_or(0);
  }
  return 0;
}

// A filter at capacity has half of its bits set and the rate it was created for. One that outgrew
// its capacity is a chain of filters, each with at most that rate.
double estimated_rate(double fill, double target_rate, std::int64_t filters) {
  if (fill > 1) return std::min(1.0, target_rate * static_cast<double>(std::max<std::int64_t>(filters, 1)));
  return std::pow(1 - std::exp2(-fill), -std::log2(target_rate));
}

}  // namespace

SeenRedisBloom::SeenRedisBloom(const SeenSettings& settings, redis::Keys keys)
    : daily_capacity_(settings.impressions_per_day),
      daily_rate_(feed::daily_false_positive_rate(settings.false_positive_rate)),
      keys_(std::move(keys)) {}

Task<Result<void>> SeenRedisBloom::probe(redis::Redis& redis) {
  redis::Pipeline command;
  command.add("COMMAND", "INFO", "BF.INSERT", "BF.MEXISTS", "BF.INFO");
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis, command));
  bool all = reply->size() == 3;
  for (std::size_t i = 0; i < reply->size(); ++i) all = all && (*reply)[i].size() > 0;
  if (!all) {
    co_return fail(
        ErrorCode::kUnavailable, "no_redisbloom", {},
        "seen.filter = \"redisbloom\", but this Redis has no BF commands: load the RedisBloom module, or "
        "set seen.filter = \"fingerprints\", which needs no module");
  }
  co_return Result<void>();
}

Task<Result<void>> SeenRedisBloom::load_day(redis::Redis&, UnixSeconds) { co_return Result<void>(); }

std::size_t SeenRedisBloom::append_read(redis::Pipeline&, const ReaderId&, UnixSeconds) const { return 0; }

Result<std::shared_ptr<const SeenView>> SeenRedisBloom::parse_view(const redis::Replies&, std::size_t,
                                                                   const ReaderId&, UnixSeconds) {
  return std::shared_ptr<const SeenView>();
}

Task<Result<std::vector<bool>>> SeenRedisBloom::check(redis::Redis& redis, const ReaderId& reader,
                                                      const std::shared_ptr<const SeenView>&,
                                                      const std::vector<ItemId>& items, UnixSeconds now) {
  std::vector<bool> out(items.size(), false);
  if (items.empty()) co_return out;
  redis::Pipeline command;
  for (int back = 0; back < kSeenDays; ++back) {
    command.command(2 + items.size()).arg("BF.MEXISTS").arg(keys_.seen_day(utc_day(now - days(back))));
    for (const ItemId& item : items) command.arg(filter_member(reader, item));
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, command));
  for (const redis::Reply& day : *replies) {
    for (std::size_t i = 0; i < std::min(items.size(), day.size()); ++i) {
      if (day[i].integer().value_or(0) != 0) out[i] = true;
    }
  }
  co_return out;
}

Task<Result<void>> SeenRedisBloom::add(redis::Redis& redis, ReaderId reader, std::vector<ItemId> items,
                                       UnixSeconds at, bool) {
  redis::Pipeline command;
  for (std::size_t from = 0; from < items.size(); from += kMaxItemsPerScript) {
    const std::size_t to = std::min(from + kMaxItemsPerScript, items.size());
    command.script(scripts::kSeenBloomAdd)
        .key(keys_.seen_day(utc_day(at)))
        .arg(feed::filter_expires_at(at).time_since_epoch().count())
        .arg(daily_capacity_)
        .arg(daily_rate_);
    for (std::size_t i = from; i < to; ++i) command.arg(filter_member(reader, items[i]));
  }
  if (command.empty()) co_return Result<void>();
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, command));
  counters_.recorded += items.size();
  co_return Result<void>();
}

Task<Result<SeenStatus>> SeenRedisBloom::status(redis::Redis& redis, UnixSeconds now) const {
  redis::Pipeline command;
  for (int back = 0; back < kSeenDays; ++back)
    command.add("BF.INFO", keys_.seen_day(utc_day(now - days(back))));
  FRESHET_CO_TRY(replies, co_await redis.run(command));
  SeenStatus out;
  out.filter = "redisbloom";
  double unseen = 1;
  for (int back = 0; back < kSeenDays; ++back) {
    const redis::Reply& reply = (*replies)[static_cast<std::size_t>(back)];
    if (reply.is_error() || reply.size() == 0) continue;  // "not found": nothing was shown that day
    SeenDay day;
    day.day = utc_day(now - days(back));
    day.impressions = info_field(reply, "Number of items inserted");
    day.bytes = static_cast<std::uint64_t>(info_field(reply, "Size"));
    day.fill = static_cast<double>(day.impressions) / static_cast<double>(daily_capacity_);
    day.false_positive_rate = estimated_rate(day.fill, daily_rate_, info_field(reply, "Number of filters"));
    out.bytes += day.bytes;
    unseen *= 1 - day.false_positive_rate;
    out.days.push_back(std::move(day));
  }
  out.false_positive_rate = 1 - unseen;
  co_return out;
}

}  // namespace freshet::feed
