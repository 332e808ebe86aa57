#include "scripts/ctl/check/check.h"

#include <fmt/format.h>

#include <chrono>
#include <unordered_set>
#include <vector>

#include "core/hot/ports.h"
#include "core/redis/keys.h"
#include "scripts/ctl/check/check_keys.h"
#include "scripts/ctl/check/check_members.h"
#include "scripts/ctl/check/check_timelines.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {
namespace {

using Clock = std::chrono::steady_clock;

class Checker {
 public:
  Checker(redis::BlockingRedis& redis, const Settings& settings, const CheckOptions& options,
          Findings& findings)
      : redis_(redis),
        keys_(settings.redis),
        findings_(findings),
        key_check_(redis, settings, keys_, findings, totals_),
        member_check_(redis, settings, keys_, findings, options.sweep),
        timeline_check_(redis, settings, keys_, findings),
        progress_(stderr, options.quiet) {}

  Result<CheckTotals> run() {
    if (auto ok = scan(); !ok) return tl::unexpected(ok.error());
    for (const auto step :
         {&MemberCheck::check_ranks, &MemberCheck::check_bucket_index, &MemberCheck::check_hidden,
          &MemberCheck::check_abandoned_rebuilds, &MemberCheck::recheck_rank_scores}) {
      if (auto ok = (member_check_.*step)(); !ok) return tl::unexpected(ok.error());
    }
    return totals_;
  }

 private:
  Result<void> scan() {
    redis::Pipeline size;
    size.add("DBSIZE");
    FRESHET_TRY(replies, run_pipeline(redis_, size));
    const std::int64_t total = replies->front().integer().value_or(0);
    const auto began = Clock::now();
    std::int64_t scanned = 0;
    auto ok = scan_all(redis_, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
      scanned += static_cast<std::int64_t>(page.size());
      progress_.update({scanned, total, Clock::now() - began, {}});
      return check_page(page);
    });
    progress_.clear();
    return ok;
  }

  Result<void> check_page(const std::vector<std::string>& page) {
    std::vector<NamedKey> named_keys;
    for (const std::string& key : page) {
      auto name = keys_.strip_prefix(key);
      if (!name) continue;  // another application's prefix
      if (checked_keys_.insert(key).second) named_keys.push_back({key, std::move(*name)});
    }
    totals_.keys += static_cast<std::int64_t>(named_keys.size());
    if (auto ok = key_check_.check(named_keys); !ok) return ok;
    if (auto ok = timeline_check_.check(named_keys); !ok) return ok;
    std::vector<std::string> articles;
    for (const NamedKey& each : named_keys) {
      const auto id = strip_key_prefix(each.name, "hot:article:");
      if (id && !hot::is_invisible_alias(*id)) articles.emplace_back(*id);
    }
    if (auto ok = member_check_.compare_rank_scores(articles); !ok) return ok;
    for (const NamedKey& each : named_keys) {
      Result<void> ok;
      if (each.key == keys_.data_lost_at()) findings_.add(kinds::kDataLost, each.key);
      if (const auto hour = strip_key_prefix(each.name, "hot:current:"); hour && *hour != "index") {
        ok = member_check_.check_bucket(each.key, *hour);
      } else if (strip_key_prefix(each.name, "tag:")) {
        ok = member_check_.check_tag(each.key);
      }
      if (!ok) return ok;
    }
    return {};
  }

  redis::BlockingRedis& redis_;
  const redis::Keys keys_;
  CheckTotals totals_;
  Findings& findings_;
  KeyCheck key_check_;
  MemberCheck member_check_;
  TimelineCheck timeline_check_;
  ProgressLine progress_;
  std::unordered_set<std::string> checked_keys_;  // SCAN may return a key twice
};

void check_total(Findings& findings, const std::optional<std::int64_t>& expected, std::int64_t actual,
                 std::string_view label) {
  if (!expected || *expected == actual) return;
  findings.add(kinds::kWrongTotal, label,
               fmt::format("{} counted, {} expected", format_number(actual), format_number(*expected)));
}

std::string json_of(const CheckTotals& sums, const Findings& findings) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("violations").integer(findings.remaining(Level::kViolation));
  writer.key("odd").integer(findings.remaining(Level::kSuspicious));
  writer.key("stale").integer(findings.remaining(Level::kStale));
  writer.key("keys").integer(sums.keys).key("items").integer(sums.items);
  writer.key("pv").integer(sums.pv).key("views").integer(sums.views).key("findings");
  findings.write_json(writer);
  writer.end_object();
  return out;
}

std::string text_of(const CheckTotals& sums, const Findings& findings, bool swept) {
  const std::int64_t stale = findings.remaining(Level::kStale);
  return findings.text() +
         fmt::format("{} keys, {} items with counters, pv {}, counted views {}\n", format_number(sums.keys),
                     format_number(sums.items), format_number(sums.pv), format_number(sums.views)) +
         fmt::format("{} violations, {} suspicious, {} stale{}",
                     format_number(findings.remaining(Level::kViolation)),
                     format_number(findings.remaining(Level::kSuspicious)), format_number(stale),
                     stale > 0 && !swept ? " (--sweep removes them)" : "");
}

}  // namespace

Result<CheckTotals> check_redis(redis::BlockingRedis& redis, const Settings& settings,
                                const CheckOptions& options, Findings& findings) {
  auto sums = Checker(redis, settings, options, findings).run();
  if (!sums) return sums;
  check_total(findings, options.expect_pv, sums->pv, "pv");
  check_total(findings, options.expect_views, sums->views, "views");
  return sums;
}

Result<int> run_check(const CheckOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, {});
  Findings findings;
  const auto sums = check_redis(redis, *settings, options, findings);
  if (!sums) return tl::unexpected(with_redis_address(sums.error(), *endpoint));
  if (options.json)
    print_json_line(json_of(*sums, findings));
  else
    ctl::print("{}\n", text_of(*sums, findings, options.sweep));
  const std::int64_t lesser = findings.remaining(Level::kSuspicious) + findings.remaining(Level::kStale);
  return findings.remaining(Level::kViolation) > 0 || (options.strict && lesser > 0) ? 1 : 0;
}

}  // namespace freshet::ctl
