#include "core/feed/seen_blocks.h"

#include <algorithm>
#include <array>

#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::feed {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::size_t kMostAtOnce = 100;  // impressions of one script: 40 µs of Redis' time
constexpr std::int64_t kSample = 32;      // shards of each day that status() looks at

sys_days day_of(UnixSeconds at) { return std::chrono::floor<days>(at); }

class BlocksView final : public SeenView {
 public:
  BlocksView(const ReaderId& reader, std::array<SeenShard, kSeenDays> shards)
      : reader_(feed::reader_hash(reader)), shards_(std::move(shards)) {}
  bool contains(const ItemId& item) const override {
    const std::uint64_t hash = feed::impression_hash(reader_, item);
    return std::any_of(shards_.begin(), shards_.end(),
                       [hash](const SeenShard& day) { return day.contains(hash); });
  }

 private:
  std::uint64_t reader_;
  std::array<SeenShard, kSeenDays> shards_;
};

// One day from the lengths of a sample of its shards.
SeenDay estimate(sys_days day, const SeenLayout& layout, const std::vector<std::int64_t>& lengths) {
  double bytes = 0, impressions = 0, hits = 0;
  for (const std::int64_t length : lengths) {
    const std::int64_t entries = std::max<std::int64_t>(0, (length - 1 - kSeenBuckets) / layout.width);
    bytes += static_cast<double>(length);
    impressions += static_cast<double>(entries);
    hits += static_cast<double>(entries) * feed::shard_rate(entries, layout.width);
  }
  const double scale = static_cast<double>(layout.shards) / static_cast<double>(lengths.size());
  SeenDay out;
  out.day = utc_day(day);
  out.bytes = static_cast<std::uint64_t>(bytes * scale);
  out.impressions = static_cast<std::int64_t>(impressions * scale);
  out.fill = impressions / static_cast<double>(lengths.size()) / static_cast<double>(kShardImpressions);
  out.false_positive_rate = impressions > 0 ? hits / impressions : 0;
  return out;
}

}  // namespace

SeenBlocks::SeenBlocks(const SeenSettings& settings, redis::Keys keys)
    : layout_(feed::seen_layout(settings)), keys_(std::move(keys)) {}

// --- layouts

SeenLayout SeenBlocks::layout_of(Day day) const {
  const auto found = layouts_.find(day);
  return found == layouts_.end() ? layout_ : found->second;
}

std::string SeenBlocks::layout_key(Day day) const { return keys_.seen_shard(utc_day(day), "layout"); }

std::string SeenBlocks::shard_key(Day day, std::uint64_t reader_hash) const {
  const SeenLayout layout = layout_of(day);
  return keys_.seen_shard(utc_day(day), layout.text() + "." + std::to_string(shard_of(reader_hash, layout)));
}

void SeenBlocks::append_layout(redis::Pipeline& out, Day day) const {
  out.add("SET", layout_key(day), layout_of(day).text(), "NX", "EXAT",
          feed::forgotten_at(day).time_since_epoch().count());
}

Task<Result<void>> SeenBlocks::probe(redis::Redis& redis) const {
  const Day today = day_of(wall_now());
  redis::Pipeline command;
  append_layout(command, today);
  for (int back = 0; back < kSeenDays; ++back) command.add("GET", layout_key(today - days(back)));
  FRESHET_CO_TRY(replies, co_await redis.run(command));
  for (const redis::Reply& reply : *replies) {
    if (reply.is_error()) co_return tl::unexpected(redis::classify(reply.error()));
  }
  for (int back = 0; back < kSeenDays; ++back) {
    const auto text = (*replies)[static_cast<std::size_t>(back) + 1].string();
    const auto layout = text ? SeenLayout::parse(*text) : std::nullopt;
    if (layout) layouts_[today - days(back)] = *layout;
  }
  co_return Result<void>();
}

// --- reading

// One MGET for each run of days with the same layout, newest first: nearly always one.
std::size_t SeenBlocks::append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const {
  const std::uint64_t hash = feed::reader_hash(reader);
  const Day today = day_of(now);
  std::size_t commands = 0;
  for (int from = 0; from < kSeenDays; ++commands) {
    int to = from + 1;
    while (to < kSeenDays && layout_of(today - days(to)) == layout_of(today - days(from))) ++to;
    out.command(1 + static_cast<std::size_t>(to - from)).arg("MGET");
    for (; from < to; ++from) out.arg(shard_key(today - days(from), hash));
  }
  return commands;
}

Result<std::shared_ptr<const SeenView>> SeenBlocks::view(const redis::Replies& replies, std::size_t first,
                                                         const ReaderId& reader, UnixSeconds) const {
  std::array<SeenShard, kSeenDays> shards;
  for (std::size_t day = 0; day < shards.size(); ++first) {
    if (first >= replies.size())
      return fail(ErrorCode::kInternal, "redis_type", {}, "seen-filter: replies are missing");
    const redis::Reply& reply = replies[first];
    if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
    if (reply.size() == 0 || reply.size() > shards.size() - day)
      return fail(ErrorCode::kInternal, "redis_type", {}, "seen-filter: not the reply of MGET");
    for (std::size_t i = 0; i < reply.size(); ++i) shards[day++] = SeenShard(redis::text_at(reply, i));
  }
  return std::make_shared<BlocksView>(reader, std::move(shards));
}

Task<Result<std::vector<bool>>> SeenBlocks::check(redis::Redis& redis, const ReaderId& reader,
                                                  const std::shared_ptr<const SeenView>& view,
                                                  const std::vector<ItemId>& items, UnixSeconds now) const {
  std::shared_ptr<const SeenView> known = view;
  if (!known) {
    redis::Pipeline command;
    append_read(command, reader, now);
    FRESHET_CO_TRY(replies, co_await redis.run(command));
    FRESHET_CO_TRY(read, this->view(*replies, 0, reader, now));
    known = std::move(*read);
  }
  std::vector<bool> out;
  out.reserve(items.size());
  for (const ItemId& item : items) out.push_back(known->contains(item));
  co_return out;
}

// --- writing

void SeenBlocks::append_add(redis::Pipeline& out, const ReaderId& reader, const std::vector<ItemId>& items,
                            UnixSeconds at) const {
  if (items.empty()) return;
  const Day day = day_of(at);
  if (layouts_.try_emplace(day, layout_).second) {
    append_layout(out, day);
    layouts_.erase(layouts_.begin(), layouts_.lower_bound(day - days(kSeenDays)));
  }
  const std::uint64_t reader_hash = feed::reader_hash(reader);
  const int width = layout_of(day).width;
  for (std::size_t from = 0; from < items.size(); from += kMostAtOnce) {
    std::vector<std::uint64_t> hashes;
    for (std::size_t i = from; i < std::min(from + kMostAtOnce, items.size()); ++i)
      hashes.push_back(feed::impression_hash(reader_hash, items[i]));
    out.script(scripts::kSeenAdd, 1, 4)
        .arg(shard_key(day, reader_hash))
        .arg(feed::forgotten_at(at).time_since_epoch().count())
        .arg(width)
        .arg(kMostShardBytes)
        .arg(feed::seen_entries(std::move(hashes), width));
  }
}

// --- /status

Task<Result<SeenStatus>> SeenBlocks::status(redis::Redis& redis, UnixSeconds now) const {
  const Day today = day_of(now);
  redis::Pipeline command;
  for (int back = 0; back < kSeenDays; ++back) {
    const SeenLayout layout = layout_of(today - days(back));
    const std::int64_t looked_at = std::min(kSample, layout.shards);
    for (std::int64_t i = 0; i < looked_at; ++i) {
      const std::string shard = layout.text() + "." + std::to_string(i * layout.shards / looked_at);
      command.add("STRLEN", keys_.seen_shard(utc_day(today - days(back)), shard));
    }
  }
  FRESHET_CO_TRY(replies, co_await redis.run(command));
  SeenStatus out;
  out.filter = "blocks";
  double unseen = 1;
  auto reply = replies->begin();
  for (int back = 0; back < kSeenDays; ++back) {
    const SeenLayout layout = layout_of(today - days(back));
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < std::min(kSample, layout.shards); ++i, ++reply) {
      FRESHET_CO_TRY(length, reply->integer());
      lengths.push_back(*length);
    }
    SeenDay day = estimate(today - days(back), layout, lengths);
    out.bytes += day.bytes;
    unseen *= 1 - day.false_positive_rate;
    if (day.bytes > 0) out.days.push_back(std::move(day));
  }
  out.false_positive_rate = 1 - unseen;
  co_return out;
}

}  // namespace freshet::feed
