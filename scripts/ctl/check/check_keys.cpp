#include "scripts/ctl/check/check_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/feed/feed_store.h"
#include "core/hot/article.h"
#include "core/redis/fields.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;
using redis::string_at;

namespace {

constexpr double kHllTolerance = 1.05;  // tolerance of the visitor estimate: six standard errors
constexpr std::int64_t kHllSlack = 2;

bool is_positive(std::string_view text) {
  const auto value = redis::parse<double>(text);
  return value && std::isfinite(*value) && *value > 0;
}

}  // namespace

Result<void> KeyCheck::check(const std::vector<NamedKey>& keys) {
  if (auto ok = check_types_and_ttls(keys); !ok) return ok;
  if (auto ok = check_items(keys); !ok) return ok;
  if (auto ok = check_articles(keys); !ok) return ok;
  return check_lengths(keys);
}

bool KeyCheck::is_of_other_partitions(const std::string& key, const redis::KeyPattern& row) const {
  const bool is_recorders = row.pattern == "recorder:stream" || row.pattern == "recorder:fence";
  if (!is_recorders) return mover_.is_misplaced(key, row);
  return keys_.has_other_partition_count(key) || keys_.in_cluster() != key.ends_with('}');
}

Result<void> KeyCheck::check_types_and_ttls(const std::vector<NamedKey>& keys) {
  Pipeline pipeline;
  for (const NamedKey& each : keys) pipeline.add("TYPE", each.key).add("PTTL", each.key);
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string_view type = (*replies)[2 * i].string().value_or("");
    const std::int64_t ttl_ms = (*replies)[2 * i + 1].integer().value_or(-2);
    if (type == "none" || ttl_ms == -2) continue;  // gone since SCAN returned it
    const redis::KeyPattern* pattern = keys_.pattern_of(keys[i].key);
    if (!pattern) {
      findings_.add(kinds::kUnknownKey, keys[i].key, type);
      continue;
    }
    if (type != pattern->type) {
      findings_.add(kinds::kWrongType, keys[i].key, fmt::format("{} instead of {}", type, pattern->type));
    }
    if (is_of_other_partitions(keys[i].key, *pattern)) findings_.add(kinds::kOtherPartitions, keys[i].key);
    // check_items() knows which of these may expire.
    if (strip_key_prefix(keys[i].name, "item:") || strip_key_prefix(keys[i].name, "hot:article:")) continue;
    if (!pattern->permanent && ttl_ms == -1) findings_.add(kinds::kNoTtl, keys[i].key);
    if (pattern->permanent && ttl_ms >= 0) findings_.add(kinds::kUnexpectedTtl, keys[i].key);
  }
  return {};
}

// Items that the site put stay, in both hashes. An article that was only viewed lives as long as
// its counters, and so does the tombstone of a removed item.
Result<void> KeyCheck::check_items(const std::vector<NamedKey>& keys) {
  std::vector<std::string> names;
  Pipeline pipeline;
  for (const NamedKey& each : keys) {
    const bool is_item = strip_key_prefix(each.name, "item:").has_value();
    if (!is_item && !strip_key_prefix(each.name, "hot:article:")) continue;
    names.push_back(each.key);
    const char* const date = is_item ? "published_at" : "date";
    // The item was put or deleted in between if the first and the last reply differ.
    pipeline.add("HEXISTS", each.key, date).add("PTTL", each.key).add("HEXISTS", each.key, date);
  }
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto before = (*replies)[3 * i].integer(), ttl_ms = (*replies)[3 * i + 1].integer(),
               after = (*replies)[3 * i + 2].integer();
    if (!before || !ttl_ms || !after || *before != *after) continue;
    if (*before == 1 && *ttl_ms >= 0) findings_.add(kinds::kUnexpectedTtl, names[i], "put by the site");
    if (*before == 0 && *ttl_ms == -1) findings_.add(kinds::kNoTtl, names[i], "never put by the site");
  }
  return {};
}

Result<void> KeyCheck::check_articles(const std::vector<NamedKey>& keys) {
  std::vector<std::string> ids;
  Pipeline pipeline;
  pipeline.add("TIME");
  for (const NamedKey& each : keys) {
    const auto id = strip_key_prefix(each.name, "hot:article:");
    if (!id) continue;
    ids.emplace_back(*id);
    pipeline.add("HMGET", each.key, "pv", "ms", "uv", "total", "score", "views", "renewed", "viewed");
    hot::append_article_read(pipeline, keys_, *id);
  }
  if (ids.empty()) return {};
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  const UnixSeconds now{seconds{redis::to_int(string_at(replies->front(), 0))}};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Reply& raw = (*replies)[1 + 2 * i];
    if (raw.is_error()) continue;  // wrong type, already reported
    const hot::Article article = hot::parse_article((*replies)[2 + 2 * i], now, settings_);
    check_engagement(keys_.article(ids[i]), raw, article);
    check_views(keys_.article(ids[i]), raw, article);
    if (article.counts.pv > 0) ++totals_.items;
    totals_.pv += article.counts.pv;
    totals_.views += article.views;
  }
  return {};
}

void KeyCheck::check_engagement(const std::string& key, const Reply& raw, const hot::Article& article) {
  if (string_at(raw, 0).empty()) return;
  const auto pv = redis::parse<std::int64_t>(string_at(raw, 0)),
             ms = redis::parse<std::int64_t>(string_at(raw, 1));
  const auto uv = redis::parse<double>(string_at(raw, 2));
  if (!pv || !ms || !uv || string_at(raw, 6).empty() || *pv < 1) {
    findings_.add(kinds::kBadCounter, key, "ms, uv or renewed is missing or invalid");
    return;
  }
  if (*ms < 0 || *ms / settings_.engagement.dwell_cap_ms > *pv) {
    findings_.add(kinds::kBadCounter, key, fmt::format("{} ms of dwell in {} sessions", *ms, *pv));
  }
  const std::int64_t visitors = article.counts.uv;
  if (static_cast<double>(visitors) > kHllTolerance * static_cast<double>(*pv) + kHllSlack) {
    findings_.add(kinds::kUvAbovePv, key, fmt::format("pv {}, uv {}", *pv, visitors));
  }
}

void KeyCheck::check_views(const std::string& key, const Reply& raw, const hot::Article& article) {
  const std::string total(string_at(raw, 3)), score(string_at(raw, 4)), views(string_at(raw, 5));
  if (views.empty() && total.empty() && score.empty()) return;
  if (article.views < 1 && !views.empty() && string_at(raw, 7).empty())
    findings_.add(kinds::kBadCounter, key, "views without viewed");
  if (!views.empty() && redis::parse_or_zero<std::int64_t>(views) < 1)
    findings_.add(kinds::kBadCounter, key, "views " + views);
  if (!is_positive(total)) findings_.add(kinds::kBadScore, key, "total " + total);
  if (!is_positive(score)) findings_.add(kinds::kBadScore, key, "score " + score);
}

Result<void> KeyCheck::check_lengths(const std::vector<NamedKey>& keys) {
  struct Cap {
    std::string_view prefix, command;
    std::int64_t limit;
  };
  const std::array caps{
      Cap{"feed:cache:", "LLEN", feed::kMaxBufferLines},
      Cap{"feed:state:", "HLEN", feed::kMaxStateFields},
      Cap{"user:interactions:", "ZCARD", settings_.interactions.max_kept},
      Cap{"user:earlier:", "STRLEN", std::int64_t{11} * settings_.interactions.max_archived()},
      Cap{"user:not_interested:", "ZCARD", settings_.feedback.max_items},
      Cap{"user:views:topic:", "LLEN", settings_.history.size},
      Cap{"user:views:reply:", "LLEN", settings_.history.size}};
  Pipeline pipeline;
  std::vector<std::pair<std::string, std::int64_t>> checked;
  for (const NamedKey& each : keys) {
    for (const Cap& cap : caps) {
      if (!strip_key_prefix(each.name, cap.prefix)) continue;
      pipeline.add(cap.command, each.key);
      checked.emplace_back(each.key, cap.limit);
    }
  }
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  for (std::size_t i = 0; i < checked.size(); ++i) {
    const std::int64_t members = (*replies)[i].integer().value_or(0);
    if (members > checked[i].second)
      findings_.add(kinds::kOverLimit, checked[i].first, fmt::format("{} of {}", members, checked[i].second));
  }
  return {};
}

}  // namespace freshet::ctl
