#include "core/feed/seen_fingerprints.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::feed {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::int64_t kSample = 32;        // shards of each day that status() looks at
constexpr std::size_t kMostKnown = 100000;  // shards of a day that a process remembers; then it starts anew
constexpr std::size_t kMostTold = 1000;

sys_days day_of(UnixSeconds at) { return std::chrono::floor<days>(at); }

class PrintsView final : public SeenView {
 public:
  PrintsView(const ReaderId& reader, SeenPrints prints)
      : reader_(feed::reader_hash(reader)), prints_(std::move(prints)) {}
  std::vector<bool> contain(const std::vector<ItemId>& items) const override {
    return prints_.contain(reader_, items);
  }

 private:
  std::uint64_t reader_;
  SeenPrints prints_;
};

// One day from the lengths of a sample of its shards.
SeenDay estimate(sys_days day, std::int64_t shards, const std::vector<std::int64_t>& lengths) {
  double bytes = 0, impressions = 0, hits = 0;
  for (const std::int64_t length : lengths) {
    const std::int64_t prints = length / static_cast<std::int64_t>(kPrintBytes);
    bytes += static_cast<double>(length);
    impressions += static_cast<double>(prints);
    hits += static_cast<double>(prints) * feed::shard_rate(prints);
  }
  const double scale = static_cast<double>(shards) / static_cast<double>(lengths.size());
  SeenDay out;
  out.day = utc_day(day);
  out.bytes = static_cast<std::uint64_t>(bytes * scale);
  out.impressions = static_cast<std::int64_t>(impressions * scale);
  out.fill = impressions / static_cast<double>(lengths.size()) / static_cast<double>(kShardImpressions);
  out.false_positive_rate = impressions > 0 ? hits / impressions : 0;
  return out;
}

}  // namespace

SeenFingerprints::SeenFingerprints(const SeenSettings& settings, redis::Keys keys)
    : shards_(feed::shards_for(settings.impressions_per_day)), keys_(std::move(keys)) {}

// --- how days are cut

std::int64_t SeenFingerprints::shards_of(Day day) const {
  const auto found = days_.find(day);
  return found == days_.end() ? shards_ : found->second.shards;
}

SeenFingerprints::Known& SeenFingerprints::known(Day day) {
  return days_.try_emplace(day, Known{shards_, {}, {}}).first->second;
}

std::string SeenFingerprints::count_key(Day day) const { return keys_.seen_shard(utc_day(day), "shards"); }

std::string SeenFingerprints::shard_key(Day day, std::int64_t shard) const {
  return keys_.seen_shard(utc_day(day), "{" + std::to_string(shard) + "}");
}

void SeenFingerprints::append_count(redis::Pipeline& out, Day day) const {
  out.add("SET", count_key(day), shards_, "NX", "EXAT", feed::forgotten_at(day).time_since_epoch().count());
}

Task<Result<void>> SeenFingerprints::probe(redis::Redis& redis) {
  const Day today = day_of(wall_now());
  redis::Pipeline command;
  append_count(command, today);
  for (int back = 0; back < kSeenDays; ++back) command.add("GET", count_key(today - days(back)));
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, command));
  for (int back = 0; back < kSeenDays; ++back) {
    const auto shards =
        redis::parse_or_zero<std::int64_t>((*replies)[static_cast<std::size_t>(back) + 1].text());
    if (shards > 0) days_.insert_or_assign(today - days(back), Known{shards, {}, {}});
  }
  co_return Result<void>();
}

Task<Result<void>> SeenFingerprints::learn(redis::Redis& redis, UnixSeconds now) {
  const Day day = day_of(now);
  if (days_.contains(day)) co_return Result<void>();
  redis::Pipeline command;
  append_count(command, day);
  command.add("GET", count_key(day));
  FRESHET_CO_TRY(replies, co_await redis.run(command));
  const redis::Reply& count = replies->back();
  if (count.is_error()) co_return tl::unexpected(redis::classify(count.error()));
  const auto shards = redis::parse_or_zero<std::int64_t>(count.text());
  // It is not there when the day is over.
  days_.try_emplace(day, Known{shards > 0 ? shards : shards_, {}, {}});
  days_.erase(days_.begin(), days_.lower_bound(day - days(kSeenDays)));
  co_return Result<void>();
}

// --- reading

// One MGET for each run of days that are cut alike, newest first: nearly always one. Its keys lie
// in one slot: what stands in braces is the shard's number.
std::size_t SeenFingerprints::append_read(redis::Pipeline& out, const ReaderId& reader,
                                          UnixSeconds now) const {
  const std::uint64_t hash = feed::reader_hash(reader);
  const Day today = day_of(now);
  std::size_t commands = 0;
  for (int from = 0; from < kSeenDays; ++commands) {
    const std::int64_t shards = shards_of(today - days(from));
    int to = from + 1;
    while (to < kSeenDays && shards_of(today - days(to)) == shards) ++to;
    out.command(1 + static_cast<std::size_t>(to - from)).arg("MGET");
    for (; from < to; ++from) out.arg(shard_key(today - days(from), feed::shard_of(hash, shards)));
  }
  return commands;
}

Result<std::shared_ptr<const SeenView>> SeenFingerprints::view(const redis::Replies& replies,
                                                               std::size_t first, const ReaderId& reader,
                                                               UnixSeconds now) {
  SeenPrints prints;
  for (std::size_t day = 0; day < std::size_t{kSeenDays}; ++first) {
    if (first >= replies.size())
      return fail(ErrorCode::kInternal, "redis_type", {}, "seen-filter: replies are missing");
    const redis::Reply& reply = replies[first];
    if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
    if (reply.size() == 0 || reply.size() > std::size_t{kSeenDays} - day)
      return fail(ErrorCode::kInternal, "redis_type", {}, "seen-filter: not the reply of MGET");
    for (std::size_t i = 0; i < reply.size(); ++i, ++day) {
      if (prints.add(redis::string_at(reply, i))) continue;
      const Day of = day_of(now) - days(day);
      tell_once("seen_shard_odd", shard_key(of, feed::shard_of(feed::reader_hash(reader), shards_of(of))),
                "its length is no multiple of three: somebody else wrote into it");
    }
  }
  return std::make_shared<PrintsView>(reader, std::move(prints));
}

Task<Result<std::vector<bool>>> SeenFingerprints::check(redis::Redis& redis, const ReaderId& reader,
                                                        const std::shared_ptr<const SeenView>& view,
                                                        const std::vector<ItemId>& items, UnixSeconds now) {
  std::shared_ptr<const SeenView> known = view;
  if (!known) {
    redis::Pipeline command;
    append_read(command, reader, now);
    FRESHET_CO_TRY(replies, co_await redis.run(command));
    FRESHET_CO_TRY(read, this->view(*replies, 0, reader, now));
    known = std::move(*read);
  }
  co_return known->contain(items);
}

// --- writing

void SeenFingerprints::tell_once(std::string_view what, std::string key, const std::string& error) {
  if (told_.size() >= kMostTold) told_.clear();
  const auto [told, first] = told_.insert(std::move(key));
  if (first) log::error(what, {{"key", *told}, {"error", error}});
}

Task<Result<void>> SeenFingerprints::add(redis::Redis& redis, ReaderId reader, std::vector<ItemId> items,
                                         UnixSeconds at, bool again) {
  if (items.empty()) co_return Result<void>();
  FRESHET_CO_TRY(learned, co_await learn(redis, at));
  const Day day = day_of(at);
  const std::uint64_t hash = feed::reader_hash(reader);
  const std::int64_t shard = feed::shard_of(hash, known(day).shards);
  if (known(day).full.contains(shard)) {
    counters_.refused += items.size();
    co_return Result<void>();
  }
  const bool plain = !again && known(day).begun.contains(shard);
  const std::string key = shard_key(day, shard);
  const std::string prints = feed::seen_bytes(hash, items);
  const std::int64_t ends = feed::forgotten_at(day).time_since_epoch().count();
  redis::Pipeline command;
  if (plain)
    command.add("APPEND", key, prints);
  else
    command.script(scripts::kSeenAppend).key(key).arg(ends).arg(kMostShardBytes).arg(prints);
  const auto reply = co_await redis::run_one(redis, command);
  if (!reply) {
    if (reply.error().code == ErrorCode::kInternal)
      tell_once("seen_shard_unusable", key, reply.error().detail);
    co_return tl::unexpected(reply.error());
  }
  const std::int64_t length = reply->integer().value_or(0);
  if (length == 0) co_return Result<void>();  // the day is over
  (length < 0 ? counters_.refused : counters_.recorded) += items.size();
  if (length < 0 || length >= kMostShardBytes) {
    known(day).full.insert(shard);
    tell_once("seen_shard_full", key, "its readers' impressions of this day are forgotten from now on");
    co_return Result<void>();
  }
  if (known(day).begun.size() >= kMostKnown) known(day).begun.clear();
  known(day).begun.insert(shard);
  if (length > static_cast<std::int64_t>(prints.size())) co_return Result<void>();
  redis::Pipeline born;
  if (plain) born.add("EXPIREAT", key, ends);
  const Day before = day - days(1);
  born.script(scripts::kSeenClose).key(shard_key(before, feed::shard_of(hash, shards_of(before))));
  FRESHET_CO_TRY(done, co_await redis.run(born));
  co_return Result<void>();
}

// --- /status

Task<Result<SeenStatus>> SeenFingerprints::status(redis::Redis& redis, UnixSeconds now) const {
  const Day today = day_of(now);
  redis::Pipeline command;
  for (int back = 0; back < kSeenDays; ++back) {
    const std::int64_t shards = shards_of(today - days(back));
    const std::int64_t looked_at = std::min(kSample, shards);
    for (std::int64_t i = 0; i < looked_at; ++i)
      command.add("STRLEN", shard_key(today - days(back), i * shards / looked_at));
  }
  FRESHET_CO_TRY(replies, co_await redis.run(command));
  SeenStatus out;
  out.filter = "fingerprints";
  double unseen = 1;
  auto reply = replies->begin();
  for (int back = 0; back < kSeenDays; ++back) {
    const std::int64_t shards = shards_of(today - days(back));
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < std::min(kSample, shards); ++i, ++reply) {
      FRESHET_CO_TRY(length, reply->integer());
      lengths.push_back(*length);
    }
    SeenDay day = estimate(today - days(back), shards, lengths);
    out.bytes += day.bytes;
    unseen *= 1 - day.false_positive_rate;
    if (day.bytes > 0) out.days.push_back(std::move(day));
  }
  out.false_positive_rate = 1 - unseen;
  co_return out;
}

}  // namespace freshet::feed
