#include "scripts/ctl/replay/import_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_set>

#include "core/base/json.h"
#include "core/hot/rank_updater.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/replay/event_log.h"
#include "scripts/ctl/replay/import.h"

namespace freshet::ctl {
namespace {

constexpr std::int64_t kMaxPageViews = 1'000'000'000'000, kMaxVisitors = 100'000'000;
constexpr std::size_t kArticlesPerBatch = 100;
constexpr std::int64_t kMembersPerCommand = 500, kCommandsPerPipeline = 200;
constexpr int kMaxWriteAttempts = 5;
constexpr std::size_t kMaxListedRejections = 20;
constexpr std::int64_t kMinCounted = 100;   // as in track.lua
constexpr seconds kTrackedSpan{2 * 86400};  // as in view.lua
// No visitor has this prefix, since ids contain no control characters.
constexpr std::string_view kArtificialVisitor = "\x1F";

enum Field : std::uint8_t {
  kVersion,
  kPv,
  kMs,
  kRenewed,
  kDate,
  kFirst,
  kDated,
  kHidden,
  kUv,
  kNets,
  kImported
};
constexpr std::array<std::string_view, 11> kFields{"v",     "pv",     "ms", "renewed", "date",    "first",
                                                   "dated", "hidden", "uv", "nets",    "imported"};

Result<CounterLine> parse_counter_line(json::Value object) {
  CounterLine out;
  FRESHET_TRY(item, json::required_id<ItemId>(object, "id"));
  FRESHET_TRY(pv, json::required_integer(object, "pv", 1, kMaxPageViews));
  FRESHET_TRY(uv, json::optional_integer(object, "uv", 0, kMaxVisitors));
  FRESHET_TRY(first, json::optional_time(object, "first"));
  out.item = std::move(*item);
  out.pv = *pv;
  out.uv = uv->value_or(0);
  out.first = *first;
  if (out.uv > out.pv) return fail(ErrorCode::kInvalid, "bad_number", "uv", "is more than pv");
  return out;
}

std::string reason_of(const Error& error) {
  const std::string detail = error.detail.empty() ? std::string(error.reason) : error.detail;
  return error.member.empty() ? detail : error.member + ": " + detail;
}

class CounterImporter {
 public:
  CounterImporter(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys)
      : redis_(redis), settings_(settings), keys_(keys) {}

  Result<void> import_batch(std::span<const CounterLine> lines) {
    std::vector<const CounterLine*> remaining;
    for (const CounterLine& each : lines) remaining.push_back(&each);
    if (auto ok = replace_client_dates(lines); !ok) return ok;
    for (int attempt = 0; !remaining.empty(); ++attempt) {
      if (attempt == kMaxWriteAttempts)
        return fail(ErrorCode::kConflict, "write_conflict", {}, remaining.front()->item.str());
      FRESHET_TRY(articles, read(remaining));
      for (std::size_t i = 0; i < articles->size(); ++i) {
        if (auto ok = add_visitors(*remaining[i], (*articles)[i]); !ok) return ok;
      }
      FRESHET_TRY(conflicts, write(*articles, remaining));
      remaining = std::move(*conflicts);
    }
    FRESHET_TRY(ranked, redis::run_sync(hot::rank_articles(redis_, imported_, settings_, keys_)));
    imported_.clear();
    return {};
  }
  std::vector<RejectedCounterLine> rejected;

 private:
  struct StoredArticle {
    std::array<std::string, kFields.size()> fields;
    bool live = false;  // its counters have not expired
    std::int64_t now = 0;

    std::int64_t number(Field field) const { return redis::to_int(fields[field]); }
    bool is_known() const { return !fields[kDate].empty() || !fields[kFirst].empty(); }
  };

  // The site's date replaces a client's, as with the site's first report. Idempotent, except that
  // windows use the old date if this is interrupted.
  Result<void> replace_client_dates(std::span<const CounterLine> lines) {
    redis::Pipeline dates, published;
    std::vector<const CounterLine*> dated;
    for (const CounterLine& each : lines) {
      if (!each.first) continue;
      dated.push_back(&each);
      dates.script(scripts::kItemRedate).key(keys_.article(each.item.view()));
      dates.arg(unix_s(*each.first)).arg(settings_.views.base_hours).arg(settings_.views.gamma);
    }
    if (dated.empty()) return {};
    FRESHET_TRY(replaced, redis_.call_all(dates));
    for (std::size_t i = 0; i < dated.size(); ++i) {
      const std::string_view id = dated[i]->item.view();
      if ((*replaced)[i].integer() == 1)
        published.add("ZADD", keys_.partition_for(id).published(), "XX", unix_s(*dated[i]->first), id);
    }
    if (published.empty()) return {};
    FRESHET_TRY(moved, redis_.call_all(published));
    return {};
  }

  // Moves lines that cannot be imported from `lines` to `rejected`.
  Result<std::vector<StoredArticle>> read(std::vector<const CounterLine*>& lines) {
    redis::Pipeline query;
    query.add("TIME");
    for (const CounterLine* each : lines) {
      query.command(2 + kFields.size()).arg("HMGET").arg(keys_.article(each->item.view()));
      for (const std::string_view field : kFields) query.arg(field);
    }
    FRESHET_TRY(replies, redis_.call_all(query));
    const std::int64_t now = redis::to_int(redis::string_at(replies->front(), 0));
    std::vector<StoredArticle> out;
    std::vector<const CounterLine*> importable;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      StoredArticle article;
      for (std::size_t field = 0; field < kFields.size(); ++field)
        article.fields[field] = redis::string_at((*replies)[i + 1], field);
      article.now = now;
      article.live = !article.fields[kPv].empty() &&
                     now < article.number(kRenewed) + settings_.engagement.counter_ttl.count();
      if (article.fields[kDate].empty() && article.fields[kHidden] == "1") {
        rejected.push_back({lines[i]->line, lines[i]->item.str(), "id: the item was removed"});
      } else if (!article.is_known() && !lines[i]->first) {
        rejected.push_back({lines[i]->line, lines[i]->item.str(),
                            "first: is missing, and Freshet does not know the article"});
      } else {
        out.push_back(std::move(article));
        importable.push_back(lines[i]);
      }
    }
    lines = std::move(importable);
    return out;
  }

  // Idempotent.
  Result<void> add_visitors(const CounterLine& line, const StoredArticle& article) {
    const std::string hll = keys_.uv_hll(line.item.view());
    redis::Pipeline out;
    if (!article.live) out.add("DEL", hll).barrier();
    // Networks that read an unverified article are its visitors (track.lua).
    std::string_view networks = article.fields[kNets];
    if (networks.starts_with('+')) networks.remove_prefix(1);
    for (std::int64_t i = 0; article.live && i < article.number(kUv) && networks.size() >= 2; ++i) {
      out.add("PFADD", hll, networks.substr(0, 2));
      networks.remove_prefix(2);
    }
    std::int64_t commands = 0;
    for (std::int64_t from = 0; from < line.uv; from += kMembersPerCommand) {
      const std::int64_t end = std::min(from + kMembersPerCommand, line.uv);
      out.command(static_cast<std::size_t>(2 + end - from)).arg("PFADD").arg(hll);
      for (std::int64_t i = from; i < end; ++i) out.arg(std::string(kArtificialVisitor) + std::to_string(i));
      if (++commands % kCommandsPerPipeline != 0) continue;
      FRESHET_TRY(added, redis_.call_all(out));
      out = {};
    }
    out.add("EXPIRE", hll, settings_.engagement.counter_ttl.count());
    FRESHET_TRY(added, redis_.call_all(out));
    return {};
  }

  // Returns the lines of articles that changed since they were read.
  Result<std::vector<const CounterLine*>> write(const std::vector<StoredArticle>& articles,
                                                const std::vector<const CounterLine*>& lines) {
    redis::Pipeline count, out;
    for (const CounterLine* each : lines) count.add("PFCOUNT", keys_.uv_hll(each->item.view()));
    std::vector<const CounterLine*> conflicts;
    if (lines.empty()) return conflicts;
    FRESHET_TRY(visitors, redis_.call_all(count));
    for (std::size_t i = 0; i < lines.size(); ++i)
      append_write(out, *lines[i], articles[i], (*visitors)[i].integer().value_or(0));
    FRESHET_TRY(written, redis_.call_all(out));
    redis::Pipeline verified;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if ((*written)[i].integer().value_or(0) != 1) {
        conflicts.push_back(lines[i]);
        continue;
      }
      imported_.push_back(lines[i]->item.str());
      verified.add("ZREM", keys_.partition_for(lines[i]->item.view()).unverified(), lines[i]->item.view());
    }
    if (verified.empty()) return conflicts;
    FRESHET_TRY(removed, redis_.call_all(verified));
    return conflicts;
  }

  void append_write(redis::Pipeline& out, const CounterLine& line, const StoredArticle& article,
                    std::int64_t visitors) const {
    const auto earlier = redis::split_words(article.fields[kImported]);
    const std::int64_t counted_before = article.live ? article.number(kPv) : 0;
    const std::int64_t imported_before = article.live && !earlier.empty() ? redis::to_int(earlier[0]) : 0;
    std::vector<std::string_view> deleted{"nets", "nets_since"};
    if (!article.live) deleted.insert(deleted.end(), {"uv_correction", "shown"});
    const bool needs_date = !article.is_known();
    const std::int64_t ms = article.live ? article.number(kMs) : 0;
    out.script(scripts::kArticleSet).key(keys_.article(line.item.view())).arg(article.fields[kVersion]);
    article.fields[kDate].empty() ? out.arg(settings_.engagement.counter_ttl.count()) : out.arg("");
    out.arg(deleted.size());
    for (const std::string_view each : deleted) out.arg(each);
    out.arg("pv").arg(std::max<std::int64_t>(1, counted_before - imported_before + line.pv));
    out.arg("uv").arg(visitors).arg("counted").arg(std::max(kMinCounted, visitors)).arg("ms").arg(ms);
    // Not as if pages had just reported the article: POST /api/views would seem to count twice.
    const seconds back = std::min(kTrackedSpan, settings_.engagement.counter_ttl / 2);
    out.arg("renewed")
        .arg(std::max(article.live ? article.number(kRenewed) : 0, article.now - back.count()))
        .arg("imported")
        .arg(fmt::format("{} {}", line.pv, line.uv));
    if (!article.live && !article.fields[kPv].empty())
      out.arg("began").arg(std::max(article.number(kVersion) + 1, article.now * std::int64_t{1'000'000}));
    if (needs_date) out.arg("first").arg(std::min(unix_s(*line.first), article.now)).arg("dated").arg(1);
  }

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  std::vector<std::string> imported_;
};

}  // namespace

CounterFile parse_counters(std::string_view ndjson) {
  CounterFile out;
  json::Document document;
  std::unordered_set<std::string> seen;
  std::string text;
  for (std::size_t line = 1; !ndjson.empty(); ++line) {
    const std::size_t end = std::min(ndjson.find('\n'), ndjson.size());
    text.assign(ndjson.substr(0, end));
    ndjson.remove_prefix(std::min(end + 1, ndjson.size()));
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (const auto ok = document.parse(text); !ok) {
      out.rejected.push_back({line, {}, reason_of(ok.error())});
      continue;
    }
    const auto object = json::root_object(document);
    auto parsed = object ? parse_counter_line(*object) : Result<CounterLine>(tl::unexpected(object.error()));
    if (parsed && !seen.insert(parsed->item.str()).second)
      parsed = fail(ErrorCode::kInvalid, "bad_id", "id", "occurs in an earlier line");
    if (!parsed) {
      const auto id = object ? json::required_id<ItemId>(*object, "id") : Result<ItemId>();
      out.rejected.push_back({line, id ? id->str() : std::string(), reason_of(parsed.error())});
      continue;
    }
    parsed->line = line;
    out.lines.push_back(std::move(*parsed));
  }
  return out;
}

std::int64_t count_future_dates(const std::vector<CounterLine>& lines, UnixSeconds now) {
  return std::ranges::count_if(lines, [now](const CounterLine& each) { return each.first > now; });
}

Result<std::vector<RejectedCounterLine>> import_counters(redis::BlockingRedis& redis,
                                                         const Settings& settings, const redis::Keys& keys,
                                                         const std::vector<CounterLine>& lines) {
  CounterImporter importer(redis, settings, keys);
  for (std::span<const CounterLine> rest = lines; !rest.empty();) {
    const auto batch = rest.first(std::min(rest.size(), kArticlesPerBatch));
    if (auto ok = importer.import_batch(batch); !ok) return tl::unexpected(ok.error());
    rest = rest.subspan(batch.size());
  }
  return std::move(importer.rejected);
}

Result<int> run_import_counters(const ImportCountersOptions& options, const Target& target) {
  FRESHET_TRY(text, read_input(options.file));
  CounterFile file = parse_counters(*text);
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const auto refused = import_counters(redis, *settings, redis::Keys(settings->redis), file.lines);
  if (!refused) return tl::unexpected(with_redis_address(refused.error(), *endpoint));
  const std::size_t imported = file.lines.size() - refused->size();
  std::vector<RejectedCounterLine>& rejected = file.rejected;
  rejected.insert(rejected.end(), refused->begin(), refused->end());
  std::ranges::sort(rejected, {}, &RejectedCounterLine::line);
  if (const std::string_view format = other_format(*text); !format.empty() && !rejected.empty())
    ctl::print(stderr, "This looks like {}; expected one JSON object per line\n", format);
  for (const RejectedCounterLine& each :
       std::span(rejected).first(std::min(rejected.size(), kMaxListedRejections)))
    ctl::print(stderr, "line {}{}{}: {}\n", each.line, each.id.empty() ? "" : ", item ", printable(each.id),
               printable(each.reason));
  if (rejected.size() > kMaxListedRejections)
    ctl::print(stderr, "… and {} more rejected lines\n",
               format_number(static_cast<std::int64_t>(rejected.size() - kMaxListedRejections)));
  const std::int64_t future_dates = count_future_dates(file.lines, wall_now());
  const auto accepted_count = static_cast<std::int64_t>(imported);
  const auto rejected_count = static_cast<std::int64_t>(rejected.size());
  if (options.json)
    report_json([&](json::Writer& out) {
      out.key("accepted").integer(accepted_count).key("rejected").integer(rejected_count);
      out.key("future_dates").integer(future_dates);
    });
  else
    ctl::print("imported the counts of {} articles, rejected {}\n", format_number(accepted_count),
               format_number(rejected_count));
  if (!options.json && future_dates > 0)
    ctl::print("{} dates (first) are in the future and count as now\n", format_number(future_dates));
  return rejected.empty() ? 0 : 1;
}

}  // namespace freshet::ctl
