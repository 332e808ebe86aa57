#include "scripts/ctl/check/check_members.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "core/hot/article.h"
#include "core/redis/fields.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;
using redis::text_at;

namespace {

// KEYS 1 set or sorted set  2… what a member needs to stay  ARGV 1 SREM or ZREM  2 member
// Looks again and removes in one step, so what came back meanwhile stays.
constexpr std::string_view kSweep =
    "for i = 2, #KEYS do if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end end "
    "return redis.call(ARGV[1], KEYS[1], ARGV[2])";
// KEYS 1 hot:current:{hour}  2 hot:current:index  ARGV 1 hour. At one moment: both move together.
constexpr std::string_view kBestAndBound =
    "local best = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES') "
    "return {best[2] or '', redis.call('ZSCORE', KEYS[2], ARGV[1]) or ''}";
// KEYS 1 hot:article:{id}  2 hot:rank  3 hot:placed  ARGV 1 its version, of which the counters have
// expired  2 id
constexpr std::string_view kSweepExpired =
    "if redis.call('HGET', KEYS[1], 'v') ~= ARGV[1] then return 0 end "
    "redis.call('HDEL', KEYS[3], ARGV[2]) return redis.call('ZREM', KEYS[2], ARGV[2])";
// From a report to its article's place, with room: at most so old is what may be wrong.
constexpr milliseconds kPlacingTime{2000};

// KEYS 1 hot:rank:next  2 hot:rank:lock  3 hot:placed:next
constexpr std::string_view kSweepRebuild =
    "if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end return redis.call('UNLINK', KEYS[1], KEYS[3])";

}  // namespace

Result<void> MemberCheck::bucket(const std::string& key, std::string_view hour) {
  Pipeline pipeline;
  pipeline.add("EVAL", kBestAndBound, 2, key, keys_.current_index(), hour);
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const auto best = redis::parse<double>(text_at(replies->front(), 0));
  const auto bound = redis::parse<double>(text_at(replies->front(), 1));
  if (best && (!bound || *bound < *best)) {
    findings_.add(
        kinds::kBound, key,
        fmt::format("best {:.17g}, index {}", *best, bound ? fmt::format("{:.17g}", *bound) : "none"));
  }
  if (auto ok = scores(key, "0"); !ok) return ok;
  return members(kinds::kNoCounters, key, "ZREM",
                 [&](std::string_view id) { return std::vector{keys_.article(id)}; });
}

Result<void> MemberCheck::tag(const std::string& key) {
  return members(kinds::kNoItem, key, "SREM",
                 [&](std::string_view id) { return std::vector{keys_.item(id)}; });
}

// No score at or below `lowest`, none infinite. O(log n).
Result<void> MemberCheck::scores(const std::string& key, const char* lowest) {
  Pipeline pipeline;
  pipeline.add("ZRANGEBYSCORE", key, "-inf", lowest, "WITHSCORES", "LIMIT", 0, kPage);
  pipeline.add("ZRANGEBYSCORE", key, "+inf", "+inf", "WITHSCORES", "LIMIT", 0, kPage);
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (const Reply& each : *replies) {
    for (std::size_t i = 0; i + 1 < each.size(); i += 2) {
      findings_.add(kinds::kBadScore, key, fmt::format("{} has {}", text_at(each, i), text_at(each, i + 1)));
    }
  }
  return {};
}

// Members of `key` that have none of their witnesses are stale.
Result<void> MemberCheck::members(const Kind& kind, const std::string& key, const char* remove,
                                  const Witnesses& witnesses) {
  return walk(redis_, remove == std::string_view("SREM") ? "SSCAN" : "ZSCAN", key,
              [&](const std::vector<std::string>& found) -> Result<void> {
                Pipeline exists;
                for (const std::string& each : found) {
                  const auto needed = witnesses(each);
                  exists.command(1 + needed.size()).arg("EXISTS");
                  for (const std::string& name : needed) exists.arg(name);
                }
                FRESHET_TRY(replies, ask(redis_, exists));
                std::vector<std::string> stale;
                for (std::size_t i = 0; i < found.size(); ++i) {
                  if ((*replies)[i].integer().value_or(1) == 0) stale.push_back(found[i]);
                }
                return stale_members(kind, key, remove, stale, witnesses);
              });
}

Result<void> MemberCheck::stale_members(const Kind& kind, const std::string& key, const char* remove,
                                        const std::vector<std::string>& stale, const Witnesses& witnesses) {
  Pipeline sweep;
  for (const std::string& each : stale) {
    findings_.add(kind, key, each);
    const auto needed = witnesses(each);
    sweep.command(6 + needed.size()).arg("EVAL").arg(kSweep).arg(1 + needed.size()).arg(key);
    for (const std::string& name : needed) sweep.arg(name);
    sweep.arg(remove).arg(each);
  }
  return run_sweep(kind, sweep);
}

Result<void> MemberCheck::run_sweep(const Kind& kind, const Pipeline& sweep) {
  if (!sweep_ || sweep.empty()) return {};
  FRESHET_TRY(replies, ask(redis_, sweep));
  for (const Reply& each : *replies) {
    if (each.is_error())
      return fail(ErrorCode::kInternal, "redis_error", {}, "sweeping: " + std::string(each.error()));
    findings_.swept(kind);  // removed now, or no longer stale
  }
  return {};
}

Result<void> MemberCheck::ranks() {
  struct Rank {
    std::string key;
    const char* lowest;  // a score may not be this, nor lower
  };
  // A rank key is a logarithm: any finite number will do.
  for (const Rank& each :
       {Rank{keys_.rank(), "-inf"}, Rank{keys_.score(), "0"}, Rank{keys_.published(), "(0"}}) {
    Pipeline size;
    size.add("ZCARD", each.key);
    FRESHET_TRY(replies, ask(redis_, size));
    const std::int64_t members_there = replies->front().integer().value_or(0);
    if (members_there > settings_.list.max_members) {
      findings_.add(kinds::kOverCap, each.key, grouped(members_there));
    }
    if (auto ok = scores(each.key, each.lowest); !ok) return ok;
    const auto article = [&](std::string_view id) { return std::vector{keys_.article(id)}; };
    if (auto ok = members(kinds::kNoCounters, each.key, "ZREM", article); !ok) return ok;
  }
  return hottest();
}

// The highest rank key must stand for a finite score now. The half-life is the one the rank was
// made with.
Result<void> MemberCheck::hottest() {
  Pipeline pipeline;
  pipeline.add("ZREVRANGE", keys_.rank(), 0, 0, "WITHSCORES")
      .add("HGET", keys_.rank_meta(), "half_life")
      .add("TIME");
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const auto key = redis::parse<double>(text_at(replies->front(), 1));
  const auto half_life = redis::parse<std::int64_t>((*replies)[1].string().value_or(""));
  const UnixSeconds now{seconds{redis::parse_or_zero<std::int64_t>(text_at((*replies)[2], 0))}};
  const seconds life = half_life && *half_life > 0 ? seconds{*half_life} : settings_.engagement.half_life;
  if (key && !std::isfinite(hot::score_at(*key, now, life))) {
    findings_.add(kinds::kBadScore, keys_.rank(),
                  fmt::format("{} has {:.17g}", text_at(replies->front(), 0), *key));
  }
  return {};
}

// Sums of logarithms and their texts come back as they were: places are compared exactly.
Result<void> MemberCheck::places(const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  Pipeline pipeline;
  pipeline.add("TIME");
  for (const std::string& id : ids) {
    hot::append_article(pipeline, keys_, id);
    pipeline.add("ZSCORE", keys_.rank(), id).add("ZSCORE", keys_.score(), id);
  }
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const UnixSeconds now{seconds{redis::whole(text_at(replies->front(), 0))}};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Reply* at = &(*replies)[1 + 3 * i];
    if (at[0].is_error()) continue;
    const hot::Article article = hot::article_of(at[0], now, settings_);
    const auto place = [&](std::size_t reply) {
      return redis::parse<double>(at[reply].string().value_or(""));
    };
    const auto score = hot::is_shown(article) ? article.views_score : std::nullopt;
    if (place(1) != hot::rank_key_of(article, settings_.engagement) || place(2) != score)
      misplaced_.push_back(ids[i]);
  }
  return {};
}

Result<void> MemberCheck::places_again() {
  if (misplaced_.empty()) return {};
  Pipeline look;
  look.add("HMGET", keys_.rank_meta(), "formula", "next");
  FRESHET_TRY(meta, ask(redis_, look));
  const bool ours = text_at(meta->front(), 0) == hot::formula_argument(settings_.engagement);
  if (!ours || !text_at(meta->front(), 1).empty()) return {};  // it is being made anew, or is to be
  std::this_thread::sleep_for(kPlacingTime);
  for (const std::string& id : misplaced_) {
    if (auto ok = wrong_places(id); !ok) return ok;
  }
  return {};
}

// None are those that were written within the last two seconds.
Result<void> MemberCheck::wrong_places(const std::string& id) {
  Pipeline pipeline;
  pipeline.add("MULTI").add("TIME");
  hot::append_article(pipeline, keys_, id);
  for (const std::string& key : {keys_.rank(), keys_.score()})
    pipeline.add("ZSCORE", key, id).add("ZCARD", key).add("ZRANGE", key, 0, 0, "WITHSCORES");
  pipeline.add("EXEC");
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const Reply& read = replies->back();
  const UnixSeconds now{seconds{redis::whole(text_at(read[0], 0))}};
  const std::int64_t now_us = unix_s(now) * 1'000'000 + redis::whole(text_at(read[0], 1));
  const hot::Article article = hot::article_of(read[1], now, settings_);
  if (article.version > now_us - std::chrono::microseconds(kPlacingTime).count()) return {};
  struct Place {
    std::string of;
    std::optional<double> due, is;
    double lowest;  // what is below has no place
  };
  const auto place = [&](const std::string& of, std::size_t at, std::optional<double> due, double lowest) {
    const bool full = read[at + 1].integer().value_or(0) >= settings_.list.max_members;
    if (full) lowest = redis::parse_or_zero<double>(text_at(read[at + 2], 1));
    return Place{of, due, redis::parse<double>(read[at].string().value_or("")), lowest};
  };
  const EngagementSettings& engagement = settings_.engagement;
  const double floor = hot::rank_key(settings_.list.floor, now, engagement.half_life);
  for (const Place& each :
       {place(keys_.rank(), 2, hot::rank_key_of(article, engagement), floor),
        place(keys_.score(), 5, hot::is_shown(article) ? article.views_score : std::nullopt, 0)}) {
    const bool dropped = !each.is && each.due && *each.due <= each.lowest;
    if (each.is == each.due || dropped) continue;
    if (each.of == keys_.rank() && each.is && article.counts.pv == 0 && !article.hidden) {
      findings_.add(kinds::kNoCounters, each.of, id);
      Pipeline sweep;
      sweep.add("EVAL", kSweepExpired, 3, keys_.article(id), keys_.rank(), keys_.placed(), article.version,
                id);
      if (auto ok = run_sweep(kinds::kNoCounters, sweep); !ok) return ok;
      continue;
    }
    const auto text = [](const std::optional<double>& of) {
      return of ? fmt::format("{:.17g}", *of) : "no place";
    };
    findings_.add(kinds::kMisplaced, each.of,
                  fmt::format("{} has {}, its counters give {}", id, text(each.is), text(each.due)));
  }
  return {};
}

Result<void> MemberCheck::index() {
  return members(kinds::kNoBucket, keys_.current_index(), "ZREM", [&](std::string_view hour) {
    return std::vector{keys_.current(redis::parse_or_zero<std::int64_t>(hour))};
  });
}

Result<void> MemberCheck::hidden() {
  auto ok = walk(redis_, "ZSCAN", keys_.hidden(),
                 [&](const std::vector<std::string>& found) { return hidden_and_listed(found); });
  return ok ? forget_hidden() : ok;
}

Result<void> MemberCheck::hidden_and_listed(const std::vector<std::string>& found) {
  Pipeline listed, hidden;
  for (const std::string& each : found) {
    listed.add("ZSCORE", keys_.rank(), each).add("ZSCORE", keys_.score(), each);
    hidden.add("ZSCORE", keys_.hidden(), each);
  }
  // Whether it is hidden is read last: an item that is shown again leaves that set first.
  FRESHET_TRY(in_rank, ask(redis_, listed));
  FRESHET_TRY(is_hidden, ask(redis_, hidden));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool shown = !(*in_rank)[2 * i].is_nil() || !(*in_rank)[2 * i + 1].is_nil();
    const auto until = redis::parse<double>((*is_hidden)[i].string().value_or(""));
    if (shown && until && !redis::is_embargo(*until))
      findings_.add(kinds::kHiddenListed, keys_.hidden(), found[i]);
  }
  return {};
}

// A deleted item is remembered until its score in hot:hidden, and an embargo an hour beyond it.
Result<void> MemberCheck::forget_hidden() {
  Pipeline clock;
  clock.add("TIME");
  FRESHET_TRY(replies, ask(redis_, clock));
  const std::string over =
      std::to_string(redis::parse_or_zero<std::int64_t>(text_at(replies->front(), 0)) - 3600);
  Pipeline old;
  old.add("ZRANGEBYSCORE", keys_.hidden(), "-inf", over);
  if (replies = ask(redis_, old); !replies) return tl::unexpected(replies.error());
  Pipeline sweep;
  for (std::size_t i = 0; i < replies->front().size(); ++i) {
    findings_.add(kinds::kOldHidden, keys_.hidden(), text_at(replies->front(), i));
    if (sweep_) findings_.swept(kinds::kOldHidden);
  }
  if (!sweep_ || replies->front().size() == 0) return {};
  sweep.add("ZREMRANGEBYSCORE", keys_.hidden(), "-inf", over);
  if (replies = ask(redis_, sweep); !replies) return tl::unexpected(replies.error());
  return {};
}

Result<void> MemberCheck::rebuild() {
  Pipeline pipeline;
  // The lock comes before the new rank and goes after it; one rebuild may end and another begin in
  // between.
  pipeline.add("EXISTS", keys_.rank_next()).add("EXISTS", keys_.rank_lock()).add("EXISTS", keys_.rank_next());
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const bool there = replies->front().integer().value_or(0) == 1 && (*replies)[2].integer().value_or(0) == 1;
  if (!there || (*replies)[1].integer().value_or(1) == 1) return {};
  findings_.add(kinds::kOldRebuild, keys_.rank_next());
  Pipeline sweep;
  sweep.add("EVAL", kSweepRebuild, 3, keys_.rank_next(), keys_.rank_lock(), keys_.placed_next());
  return run_sweep(kinds::kOldRebuild, sweep);
}

}  // namespace freshet::ctl
