#include "scripts/ctl/check/check.h"

#include <fmt/format.h>

#include <chrono>
#include <unordered_set>
#include <vector>

#include "core/redis/keys.h"
#include "scripts/ctl/check/check_keys.h"
#include "scripts/ctl/check/check_members.h"
#include "scripts/ctl/check/check_timelines.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {
namespace {

using Clock = std::chrono::steady_clock;

class Checker {
 public:
  Checker(redis::BlockingRedis& redis, const Settings& settings, const CheckOptions& options, Findings& findings)
      : redis_(redis),
        keys_(settings.redis),
        findings_(findings),
        key_check_(redis, settings, keys_, findings, sums_),
        member_check_(redis, settings, keys_, findings, options.sweep),
        timeline_check_(redis, settings, keys_, findings),
        line_(stderr, options.quiet) {}

  Result<Sums> run() {
    if (auto ok = scan(); !ok) return tl::unexpected(ok.error());
    for (const auto step : {&MemberCheck::ranks, &MemberCheck::index, &MemberCheck::hidden,
                            &MemberCheck::rebuild, &MemberCheck::places_again}) {
      if (auto ok = (member_check_.*step)(); !ok) return tl::unexpected(ok.error());
    }
    return sums_;
  }

 private:
  Result<void> scan() {
    redis::Pipeline size;
    size.add("DBSIZE");
    FRESHET_TRY(replies, ask(redis_, size));
    const std::int64_t total = replies->front().integer().value_or(0);
    const auto began = Clock::now();
    std::int64_t looked_at = 0;
    auto ok = walk(redis_, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
      looked_at += static_cast<std::int64_t>(found.size());
      line_.show({looked_at, total, Clock::now() - began, {}});
      return look_at(found);
    });
    line_.clear();
    return ok;
  }

  Result<void> look_at(const std::vector<std::string>& found) {
    std::vector<NamedKey> ours;
    for (const std::string& key : found) {
      auto plain = keys_.strip_prefix(key);
      if (!plain) continue;  // another prefix, another owner
      if (seen_.insert(key).second) ours.push_back({key, std::move(*plain)});
    }
    sums_.keys += static_cast<std::int64_t>(ours.size());
    if (auto ok = key_check_.look_at(ours); !ok) return ok;
    if (auto ok = timeline_check_.look_at(ours); !ok) return ok;
    std::vector<std::string> articles;
    for (const NamedKey& each : ours) {
      if (const auto id = after(each.plain, "hot:article:")) articles.emplace_back(*id);
    }
    if (auto ok = member_check_.places(articles); !ok) return ok;
    for (const NamedKey& each : ours) {
      Result<void> ok;
      if (each.key == keys_.data_lost_at()) findings_.add(kinds::kLost, each.key);
      if (const auto hour = after(each.plain, "hot:current:"); hour && *hour != "index") {
        ok = member_check_.bucket(each.key, *hour);
      } else if (after(each.plain, "tag:")) {
        ok = member_check_.tag(each.key);
      }
      if (!ok) return ok;
    }
    return {};
  }

  redis::BlockingRedis& redis_;
  const redis::Keys keys_;
  Sums sums_;
  Findings& findings_;
  KeyCheck key_check_;
  MemberCheck member_check_;
  TimelineCheck timeline_check_;
  ProgressLine line_;
  std::unordered_set<std::string> seen_;  // SCAN may name a key twice
};

void expect(Findings& findings, const std::optional<std::int64_t>& wanted, std::int64_t found,
            std::string_view what) {
  if (!wanted || *wanted == found) return;
  findings.add(kinds::kSum, what, fmt::format("{} counted, {} expected", grouped(found), grouped(*wanted)));
}

std::string json_of(const Sums& sums, const Findings& findings) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("violations").integer(findings.remaining(Level::kViolation));
  writer.key("odd").integer(findings.remaining(Level::kOdd));
  writer.key("stale").integer(findings.remaining(Level::kStale));
  writer.key("keys").integer(sums.keys).key("items").integer(sums.items);
  writer.key("pv").integer(sums.pv).key("views").integer(sums.views).key("findings");
  findings.write(writer);
  writer.end_object();
  return out;
}

std::string text_of(const Sums& sums, const Findings& findings, bool swept) {
  const std::int64_t stale = findings.remaining(Level::kStale);
  return findings.text() +
         fmt::format("{} keys, {} items with counters, pv {}, counted views {}\n", grouped(sums.keys),
                     grouped(sums.items), grouped(sums.pv), grouped(sums.views)) +
         fmt::format("{} violations, {} odd, {} stale{}", grouped(findings.remaining(Level::kViolation)),
                     grouped(findings.remaining(Level::kOdd)), grouped(stale),
                     stale > 0 && !swept ? " (--sweep removes them)" : "");
}

}  // namespace

Result<Sums> check_redis(redis::BlockingRedis& redis, const Settings& settings, const CheckOptions& options,
                         Findings& findings) {
  auto sums = Checker(redis, settings, options, findings).run();
  if (!sums) return sums;
  expect(findings, options.expect_pv, sums->pv, "pv");
  expect(findings, options.expect_views, sums->views, "views");
  return sums;
}

Result<int> run_check(const CheckOptions& options, const Target& target) {
  FRESHET_TRY(settings, settings_of(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, {});
  Findings findings;
  const auto sums = check_redis(redis, *settings, options, findings);
  if (!sums) return tl::unexpected(at_redis(sums.error(), *endpoint));
  fmt::print("{}\n", options.json ? json_of(*sums, findings) : text_of(*sums, findings, options.sweep));
  const std::int64_t lesser = findings.remaining(Level::kOdd) + findings.remaining(Level::kStale);
  return findings.remaining(Level::kViolation) > 0 || (options.strict && lesser > 0) ? 1 : 0;
}

}  // namespace freshet::ctl
