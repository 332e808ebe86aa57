#include "scripts/ctl/check/check_timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <thread>

#include "core/redis/fields.h"
#include "core/timeline/ports.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;
using redis::string_at;

namespace {

// KEYS 1 a timeline. Returns, '' where there is none: the lowest and the highest score of an id,
// the marks ':' and '::', how many members there are, how many of them have no score that an id
// may have, and how many other marks.
constexpr std::string_view kLook =
    "if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return {} end "
    "local function edge(command, from, to) "
    "  return redis.call(command, KEYS[1], from, to, 'WITHSCORES', 'LIMIT', 0, 1)[2] or '' "
    "end "
    "return {edge('ZRANGEBYSCORE', '(0', '+inf'), edge('ZREVRANGEBYSCORE', '+inf', '(0'), "
    "redis.call('ZSCORE', KEYS[1], ':') or '', redis.call('ZSCORE', KEYS[1], '::') or '', "
    "redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '-inf', 0), "
    "(redis.call('ZSCORE', KEYS[1], ':::') and 1 or 0) + (redis.call('ZSCORE', KEYS[1], '::::') and 1 or 0)}";
// Within which both sides of a follow are written.
constexpr milliseconds kFollowTime{1000};

// A mark is the negative of what it says; 0: there is none.
double said(std::string_view mark) { return -redis::parse<double>(mark).value_or(0); }

}  // namespace

Result<void> TimelineCheck::look_at(const std::vector<NamedKey>& ours) {
  struct Row {
    std::string_view head;
    std::optional<std::int64_t> most;
  };
  const std::array rows{Row{"wf:", settings_.timeline.max_items},
                        Row{"follow:outbox:", settings_.fanout.outbox_size},
                        Row{"follow:pull:", settings_.fanout.outbox_size}, Row{"follow:readers:", std::nullopt}};
  Pipeline pipeline;
  std::vector<Asked> asked;
  for (const NamedKey& each : ours) {
    for (const Row& row : rows) {
      if (!each.plain.starts_with(row.head)) continue;
      pipeline.add("EVAL", kLook, 1, each.key);
      asked.push_back({each.key, row.most});
    }
  }
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (std::size_t i = 0; i < asked.size(); ++i) judge(asked[i], (*replies)[i]);
  for (const NamedKey& each : ours) {
    Result<void> ok;
    if (const auto reader = after(each.plain, "follow:authors:")) ok = follows(each.key, *reader, true);
    if (const auto author = after(each.plain, "follow:readers:")) ok = follows(each.key, *author, false);
    if (!ok) return ok;
  }
  return {};
}

void TimelineCheck::judge(const Asked& asked, const Reply& found) {
  if (found.size() == 0) return;  // gone, or of another type, which is another finding
  const std::string_view lowest = string_at(found, 0), highest = string_at(found, 1), last = string_at(found, 2),
                         cut = string_at(found, 3);
  const double top = redis::parse<double>(highest).value_or(0);
  const std::int64_t odd = found[5].integer().value_or(0), ids = found[4].integer().value_or(0) - odd;
  const auto bad = [&](const std::string& why) { findings_.add(kinds::kBadTimeline, asked.key, why); };
  if (last.empty() || said(last) < top)
    bad(fmt::format("highest score {}, and ':' says {}", highest, last.empty() ? "nothing" : last));
  if (said(last) >= static_cast<double>(timeline::kScoreEnd) ||
      top >= static_cast<double>(timeline::kScoreEnd))
    bad(fmt::format("score {} is not below 2^53", highest.empty() ? last : highest));
  if (!cut.empty() &&
      (said(cut) <= 0 || (!lowest.empty() && said(cut) >= redis::parse_or_zero<double>(lowest))))
    bad(fmt::format("lowest score {}, and '::' says that {} was cut off", lowest, cut));
  if (odd != (last.empty() ? 0 : 1) + (cut.empty() ? 0 : 1) + found[6].integer().value_or(0))
    bad(fmt::format("{} members without a score above 0", odd));
  if (asked.most && ids > *asked.most + *asked.most / 10)  // as timeline.lua allows
    findings_.add(kinds::kOverCap, asked.key, fmt::format("{} of {}", ids, *asked.most));
}

// Who is followed knows it, and the other way round.
Result<void> TimelineCheck::follows(const std::string& key, std::string_view owner, bool of_reader) {
  return walk(redis_, "ZSCAN", key, [&](const std::vector<std::string>& members) {
    return one_sided(key, owner, of_reader, members);
  });
}

Result<void> TimelineCheck::one_sided(const std::string& key, std::string_view owner, bool of_reader,
                                      const std::vector<std::string>& members) {
  std::vector<std::string> suspects;
  std::ranges::copy_if(members, std::back_inserter(suspects),
                       [](const std::string& each) { return !each.starts_with(':'); });
  for (int look = 0; look < 2 && !suspects.empty(); ++look) {
    if (look > 0) std::this_thread::sleep_for(kFollowTime);
    Pipeline pipeline;
    for (const std::string& each : suspects)
      pipeline.add("ZSCORE", key, each)
          .add("ZSCORE", of_reader ? keys_.followers(each) : keys_.followed_authors(each), owner);
    FRESHET_TRY(replies, ask(redis_, pipeline));
    std::vector<std::string> half;
    for (std::size_t i = 0; i < suspects.size(); ++i)
      if (!(*replies)[2 * i].is_nil() && (*replies)[2 * i + 1].is_nil()) half.push_back(suspects[i]);
    suspects = std::move(half);
  }
  for (const std::string& each : suspects) findings_.add(kinds::kHalfFollow, key, each);
  return {};
}

}  // namespace freshet::ctl
