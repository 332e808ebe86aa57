#include "core/feed/seen_fingerprints.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::feed {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::int64_t kSampledShards = 32;  // shards per day that status() reads
// Shards per day that a process remembers; the set is cleared when it is full.
constexpr std::size_t kMaxTrackedShards = 100000;
constexpr std::size_t kMaxLoggedKeys = 1000;

sys_days day_of(UnixSeconds at) { return std::chrono::floor<days>(at); }

class FingerprintView final : public SeenView {
 public:
  FingerprintView(const ReaderId& reader, FingerprintSet fingerprints)
      : reader_hash_(feed::reader_hash(reader)), fingerprints_(std::move(fingerprints)) {}
  std::vector<bool> contains(const std::vector<ItemId>& items) const override {
    return fingerprints_.contains(reader_hash_, items);
  }

 private:
  std::uint64_t reader_hash_;
  FingerprintSet fingerprints_;
};

// Estimates one day from the lengths of a sample of its shards.
SeenDay estimate_day(sys_days day, std::int64_t shards, const std::vector<std::int64_t>& lengths) {
  double bytes = 0, impressions = 0, hits = 0;
  for (const std::int64_t length : lengths) {
    const std::int64_t fingerprints = length / static_cast<std::int64_t>(kFingerprintBytes);
    bytes += static_cast<double>(length);
    impressions += static_cast<double>(fingerprints);
    hits += static_cast<double>(fingerprints) * feed::shard_false_positive_rate(fingerprints);
  }
  const double scale = static_cast<double>(shards) / static_cast<double>(lengths.size());
  SeenDay out;
  out.day = utc_day(day);
  out.bytes = static_cast<std::uint64_t>(bytes * scale);
  out.impressions = static_cast<std::int64_t>(impressions * scale);
  out.fill = impressions / static_cast<double>(lengths.size()) / static_cast<double>(kImpressionsPerShard);
  out.false_positive_rate = impressions > 0 ? hits / impressions : 0;
  return out;
}

}  // namespace

SeenFingerprints::SeenFingerprints(const SeenSettings& settings, redis::Keys keys)
    : default_shards_(feed::shard_count_for(settings.impressions_per_day)), keys_(std::move(keys)) {}

// --- layout of days

std::int64_t SeenFingerprints::shard_count(Day day) const {
  const auto found = days_.find(day);
  return found == days_.end() ? default_shards_ : found->second.shards;
}

SeenFingerprints::DayState& SeenFingerprints::day_state(Day day) {
  return days_.try_emplace(day, DayState{default_shards_, {}, {}}).first->second;
}

std::string SeenFingerprints::shard_count_key(Day day) const {
  return keys_.seen_shard(utc_day(day), "shards");
}

std::string SeenFingerprints::shard_key(Day day, std::int64_t shard) const {
  return keys_.seen_shard(utc_day(day), "{" + std::to_string(shard) + "}");
}

void SeenFingerprints::append_shard_count(redis::Pipeline& out, Day day) const {
  out.add("SET", shard_count_key(day), default_shards_, "NX", "EXAT",
          feed::filter_expires_at(day).time_since_epoch().count());
}

Task<Result<void>> SeenFingerprints::probe(redis::Redis& redis) {
  const Day today = day_of(wall_now());
  redis::Pipeline command;
  append_shard_count(command, today);
  for (int back = 0; back < kSeenDays; ++back) command.add("GET", shard_count_key(today - days(back)));
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, command));
  for (int back = 0; back < kSeenDays; ++back) {
    const auto shards =
        redis::parse_or_zero<std::int64_t>((*replies)[static_cast<std::size_t>(back) + 1].text());
    if (shards > 0) days_.insert_or_assign(today - days(back), DayState{shards, {}, {}});
  }
  co_return Result<void>();
}

Task<Result<void>> SeenFingerprints::load_day(redis::Redis& redis, UnixSeconds now) {
  const Day day = day_of(now);
  if (days_.contains(day)) co_return Result<void>();
  redis::Pipeline command;
  append_shard_count(command, day);
  command.add("GET", shard_count_key(day));
  FRESHET_CO_TRY(replies, co_await redis.run(command));
  const redis::Reply& count = replies->back();
  if (count.is_error()) co_return tl::unexpected(redis::classify(count.error()));
  const auto shards = redis::parse_or_zero<std::int64_t>(count.text());
  // The key is missing if the day has expired.
  days_.try_emplace(day, DayState{shards > 0 ? shards : default_shards_, {}, {}});
  days_.erase(days_.begin(), days_.lower_bound(day - days(kSeenDays)));
  co_return Result<void>();
}

// --- reading

// One MGET for each run of days with the same number of shards, newest first; nearly always one.
// Its keys share a cluster slot, since the hash tag is the shard's number.
std::size_t SeenFingerprints::append_read(redis::Pipeline& out, const ReaderId& reader,
                                          UnixSeconds now) const {
  const std::uint64_t hash = feed::reader_hash(reader);
  const Day today = day_of(now);
  std::size_t commands = 0;
  for (int from = 0; from < kSeenDays; ++commands) {
    const std::int64_t shards = shard_count(today - days(from));
    int to = from + 1;
    while (to < kSeenDays && shard_count(today - days(to)) == shards) ++to;
    out.command(1 + static_cast<std::size_t>(to - from)).arg("MGET");
    for (; from < to; ++from) out.arg(shard_key(today - days(from), feed::shard_of(hash, shards)));
  }
  return commands;
}

Result<std::shared_ptr<const SeenView>> SeenFingerprints::parse_view(const redis::Replies& replies,
                                                                     std::size_t first_reply,
                                                                     const ReaderId& reader,
                                                                     UnixSeconds now) {
  FingerprintSet fingerprints;
  for (std::size_t day = 0; day < std::size_t{kSeenDays}; ++first_reply) {
    if (first_reply >= replies.size())
      return fail(ErrorCode::kInternal, "redis_type", {}, "seen filter: replies are missing");
    const redis::Reply& reply = replies[first_reply];
    if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
    if (reply.size() == 0 || reply.size() > std::size_t{kSeenDays} - day)
      return fail(ErrorCode::kInternal, "redis_type", {}, "seen filter: unexpected reply to MGET");
    for (std::size_t i = 0; i < reply.size(); ++i, ++day) {
      if (fingerprints.add_shard(redis::string_at(reply, i))) continue;
      const Day shard_day = day_of(now) - days(day);
      log_once("seen_shard_misaligned",
               shard_key(shard_day, feed::shard_of(feed::reader_hash(reader), shard_count(shard_day))),
               "length is not a multiple of three: another program wrote to this key");
    }
  }
  return std::make_shared<FingerprintView>(reader, std::move(fingerprints));
}

Task<Result<std::vector<bool>>> SeenFingerprints::check(redis::Redis& redis, const ReaderId& reader,
                                                        const std::shared_ptr<const SeenView>& view,
                                                        const std::vector<ItemId>& items, UnixSeconds now) {
  std::shared_ptr<const SeenView> current = view;
  if (!current) {
    redis::Pipeline command;
    append_read(command, reader, now);
    FRESHET_CO_TRY(replies, co_await redis.run(command));
    FRESHET_CO_TRY(read, this->parse_view(*replies, 0, reader, now));
    current = std::move(*read);
  }
  co_return current->contains(items);
}

// --- writing

void SeenFingerprints::log_once(std::string_view event, std::string key, const std::string& error) {
  if (logged_keys_.size() >= kMaxLoggedKeys) logged_keys_.clear();
  const auto [logged, is_new] = logged_keys_.insert(std::move(key));
  if (is_new) log::error(event, {{"key", *logged}, {"error", error}});
}

Task<Result<void>> SeenFingerprints::add(redis::Redis& redis, ReaderId reader, std::vector<ItemId> items,
                                         UnixSeconds at, bool is_resend) {
  if (items.empty()) co_return Result<void>();
  FRESHET_CO_TRY(loaded, co_await load_day(redis, at));
  const Day day = day_of(at);
  const std::uint64_t hash = feed::reader_hash(reader);
  const std::int64_t shard = feed::shard_of(hash, day_state(day).shards);
  if (day_state(day).full.contains(shard)) {
    counters_.refused += items.size();
    co_return Result<void>();
  }
  const bool is_initialized = !is_resend && day_state(day).initialized.contains(shard);
  const std::string key = shard_key(day, shard);
  const std::string bytes = feed::encode_fingerprints(hash, items);
  const std::int64_t expires = feed::filter_expires_at(day).time_since_epoch().count();
  redis::Pipeline command;
  if (is_initialized)
    command.add("APPEND", key, bytes);
  else
    command.script(scripts::kSeenAppend).key(key).arg(expires).arg(kMaxShardBytes).arg(bytes);
  const auto reply = co_await redis::run_one(redis, command);
  if (!reply) {
    if (reply.error().code == ErrorCode::kInternal)
      log_once("seen_shard_unusable", key, reply.error().detail);
    co_return tl::unexpected(reply.error());
  }
  const std::int64_t length = reply->integer().value_or(0);
  if (length == 0) co_return Result<void>();  // the day has expired
  (length < 0 ? counters_.refused : counters_.recorded) += items.size();
  if (length < 0 || length >= kMaxShardBytes) {
    day_state(day).full.insert(shard);
    log_once("seen_shard_full", key, "further impressions of its readers are dropped until the next day");
    co_return Result<void>();
  }
  if (day_state(day).initialized.size() >= kMaxTrackedShards) day_state(day).initialized.clear();
  day_state(day).initialized.insert(shard);
  if (length > static_cast<std::int64_t>(bytes.size())) co_return Result<void>();
  redis::Pipeline created;
  if (is_initialized) created.add("EXPIREAT", key, expires);
  const Day before = day - days(1);
  created.script(scripts::kSeenCompact).key(shard_key(before, feed::shard_of(hash, shard_count(before))));
  FRESHET_CO_TRY(done, co_await redis.run(created));
  co_return Result<void>();
}

// --- /status

Task<Result<SeenStatus>> SeenFingerprints::status(redis::Redis& redis, UnixSeconds now) const {
  const Day today = day_of(now);
  redis::Pipeline command;
  for (int back = 0; back < kSeenDays; ++back) {
    const std::int64_t shards = shard_count(today - days(back));
    const std::int64_t sampled = std::min(kSampledShards, shards);
    for (std::int64_t i = 0; i < sampled; ++i)
      command.add("STRLEN", shard_key(today - days(back), i * shards / sampled));
  }
  FRESHET_CO_TRY(replies, co_await redis.run(command));
  SeenStatus out;
  out.filter = "fingerprints";
  double unseen = 1;
  auto reply = replies->begin();
  for (int back = 0; back < kSeenDays; ++back) {
    const std::int64_t shards = shard_count(today - days(back));
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < std::min(kSampledShards, shards); ++i, ++reply) {
      FRESHET_CO_TRY(length, reply->integer());
      lengths.push_back(*length);
    }
    SeenDay day = estimate_day(today - days(back), shards, lengths);
    out.bytes += day.bytes;
    unseen *= 1 - day.false_positive_rate;
    if (day.bytes > 0) out.days.push_back(std::move(day));
  }
  out.false_positive_rate = 1 - unseen;
  co_return out;
}

}  // namespace freshet::feed
