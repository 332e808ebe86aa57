#include "scripts/ctl/check/check_timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <thread>

#include "core/redis/fields.h"
#include "core/timeline/ports.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;
using redis::string_at;

namespace {

// KEYS 1 a timeline. Returns (each '' if missing): lowest and highest score of an id, the marks of
// the highest score and of the trimmed one, the number of members, the number of members without a
// valid id score, and the number of other marks.
constexpr std::string_view kReadTimeline =
    "if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return {} end "
    "local function edge(command, from, to) "
    "  return redis.call(command, KEYS[1], from, to, 'WITHSCORES', 'LIMIT', 0, 1)[2] or '' "
    "end "
    "local function mark(times) return redis.call('ZSCORE', KEYS[1], string.rep('\\030', times)) end "
    "return {edge('ZRANGEBYSCORE', '(0', '+inf'), edge('ZREVRANGEBYSCORE', '+inf', '(0'), "
    "mark(1) or '', mark(2) or '', "
    "redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '-inf', 0), "
    "(mark(3) and 1 or 0) + (mark(4) and 1 or 0)}";
// Both sides of a follow are written within this time.
constexpr milliseconds kFollowGrace{1000};

// A mark stores its value negated. 0: no mark.
double marked_score(std::string_view mark) { return -redis::parse<double>(mark).value_or(0); }

}  // namespace

Result<void> TimelineCheck::check(const std::vector<NamedKey>& keys) {
  struct Row {
    std::string_view prefix;
    std::optional<std::int64_t> max_ids;
  };
  const std::array rows{
      Row{"wf:", settings_.timeline.max_items}, Row{"follow:outbox:", settings_.fanout.outbox_size},
      Row{"follow:pull:", settings_.fanout.outbox_size}, Row{"follow:readers:", std::nullopt}};
  Pipeline pipeline;
  std::vector<TimelineKey> timelines;
  for (const NamedKey& each : keys) {
    for (const Row& row : rows) {
      if (!each.name.starts_with(row.prefix)) continue;
      pipeline.add("EVAL", kReadTimeline, 1, each.key);
      timelines.push_back({each.key, row.max_ids});
    }
  }
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  for (std::size_t i = 0; i < timelines.size(); ++i) evaluate(timelines[i], (*replies)[i]);
  for (const NamedKey& each : keys) {
    Result<void> ok;
    if (const auto reader = strip_key_prefix(each.name, "follow:authors:"))
      ok = check_follows(each.key, *reader, true);
    if (const auto author = strip_key_prefix(each.name, "follow:readers:"))
      ok = check_follows(each.key, *author, false);
    if (!ok) return ok;
  }
  return {};
}

void TimelineCheck::evaluate(const TimelineKey& timeline, const Reply& summary) {
  if (summary.size() == 0) return;  // gone, or of another type, which is reported separately
  const std::string_view lowest = string_at(summary, 0), highest = string_at(summary, 1),
                         top_mark = string_at(summary, 2), cut_mark = string_at(summary, 3);
  const double top = redis::parse<double>(highest).value_or(0);
  const std::int64_t non_ids = summary[5].integer().value_or(0),
                     ids = summary[4].integer().value_or(0) - non_ids;
  const auto report = [&](const std::string& why) { findings_.add(kinds::kBadTimeline, timeline.key, why); };
  if (top_mark.empty() || marked_score(top_mark) < top)
    report(fmt::format("highest score {}, but its mark is {}", highest,
                       top_mark.empty() ? "missing" : top_mark));
  if (marked_score(top_mark) >= static_cast<double>(timeline::kScoreEnd) ||
      top >= static_cast<double>(timeline::kScoreEnd))
    report(fmt::format("score {} is not below 2^53", highest.empty() ? top_mark : highest));
  if (!cut_mark.empty() &&
      (marked_score(cut_mark) <= 0 ||
       (!lowest.empty() && marked_score(cut_mark) >= redis::parse_or_zero<double>(lowest))))
    report(fmt::format("lowest score {}, but the mark of trimmed ones is {}", lowest, cut_mark));
  if (non_ids != (top_mark.empty() ? 0 : 1) + (cut_mark.empty() ? 0 : 1) + summary[6].integer().value_or(0))
    report(fmt::format("{} members without a score above 0", non_ids));
  if (timeline.max_ids && ids > *timeline.max_ids + *timeline.max_ids / 10)  // slack that timeline.lua allows
    findings_.add(kinds::kOverLimit, timeline.key, fmt::format("{} of {}", ids, *timeline.max_ids));
}

// Reports follows that only the reader or only the author has. `owner_is_reader`: `key` belongs to
// the reader.
Result<void> TimelineCheck::check_follows(const std::string& key, std::string_view owner,
                                          bool owner_is_reader) {
  return scan_all(redis_, "ZSCAN", key, [&](const std::vector<std::string>& members) {
    return find_one_sided(key, owner, owner_is_reader, members);
  });
}

Result<void> TimelineCheck::find_one_sided(const std::string& key, std::string_view owner,
                                           bool owner_is_reader, const std::vector<std::string>& members) {
  std::vector<std::string> suspects;
  std::ranges::copy_if(members, std::back_inserter(suspects),
                       [](const std::string& each) { return !redis::is_mark(each); });
  for (int attempt = 0; attempt < 2 && !suspects.empty(); ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(kFollowGrace);
    Pipeline pipeline;
    for (const std::string& each : suspects)
      pipeline.add("ZSCORE", key, each)
          .add("ZSCORE", owner_is_reader ? keys_.followers(each) : keys_.followed_authors(each), owner);
    FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
    std::vector<std::string> one_sided;
    for (std::size_t i = 0; i < suspects.size(); ++i)
      if (!(*replies)[2 * i].is_nil() && (*replies)[2 * i + 1].is_nil()) one_sided.push_back(suspects[i]);
    suspects = std::move(one_sided);
  }
  for (const std::string& each : suspects) findings_.add(kinds::kOneSidedFollow, key, each);
  return {};
}

}  // namespace freshet::ctl
