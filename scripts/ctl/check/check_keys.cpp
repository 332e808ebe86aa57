#include "scripts/ctl/check/check_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/feed/feed_store.h"
#include "core/redis/fields.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {

using redis::Pipeline;
using redis::Reply;
using redis::text_at;

namespace {

constexpr double kHllError = 1.05;  // of an estimate of visitors: six standard errors
constexpr std::int64_t kHllSmall = 2;
// Pending hand-outs beside the unacknowledged are those acknowledged in the last minute.
constexpr std::int64_t kPendingPages = 4;

bool positive(std::string_view text) {
  const auto value = redis::parse<double>(text);
  return value && std::isfinite(*value) && *value > 0;
}

}  // namespace

Result<void> KeyCheck::look_at(const std::vector<NamedKey>& ours) {
  if (auto ok = types_and_ttls(ours); !ok) return ok;
  if (auto ok = items(ours); !ok) return ok;
  if (auto ok = counters(ours); !ok) return ok;
  if (auto ok = feeds(ours); !ok) return ok;
  return views(ours);
}

Result<void> KeyCheck::types_and_ttls(const std::vector<NamedKey>& ours) {
  Pipeline pipeline;
  for (const NamedKey& each : ours) pipeline.add("TYPE", each.key).add("PTTL", each.key);
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::string_view type = (*replies)[2 * i].string().value_or("");
    const std::int64_t ttl_ms = (*replies)[2 * i + 1].integer().value_or(-2);
    if (type == "none" || ttl_ms == -2) continue;  // gone since SCAN named it
    const redis::KeyPattern* pattern = keys_.pattern_of(ours[i].key);
    if (!pattern) {
      findings_.add(kinds::kUnknownKey, ours[i].key, type);
      continue;
    }
    if (type != pattern->type) {
      findings_.add(kinds::kWrongType, ours[i].key, fmt::format("{} instead of {}", type, pattern->type));
    }
    if (after(ours[i].plain, "item:")) continue;  // items() knows which of them may expire
    if (!pattern->permanent && ttl_ms == -1) findings_.add(kinds::kNoTtl, ours[i].key);
    if (pattern->permanent && ttl_ms >= 0) findings_.add(kinds::kTtl, ours[i].key);
  }
  return {};
}

// What the site put stays; the hash of an item that was only seen lives as long as its counters.
Result<void> KeyCheck::items(const std::vector<NamedKey>& ours) {
  std::vector<std::string> names;
  Pipeline pipeline;
  for (const NamedKey& each : ours) {
    if (!after(each.plain, "item:")) continue;
    names.push_back(each.key);
    // The first and the last answer differ when it was put or deleted in between.
    pipeline.add("HEXISTS", each.key, "published_at")
        .add("PTTL", each.key)
        .add("HEXISTS", each.key, "published_at");
  }
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto before = (*replies)[3 * i].integer(), ttl_ms = (*replies)[3 * i + 1].integer(),
               then = (*replies)[3 * i + 2].integer();
    if (!before || !ttl_ms || !then || *before != *then) continue;
    if (*before == 1 && *ttl_ms >= 0) findings_.add(kinds::kTtl, names[i], "an item of the site");
    if (*before == 0 && *ttl_ms == -1) findings_.add(kinds::kNoTtl, names[i], "an item that was never put");
  }
  return {};
}

Result<void> KeyCheck::counters(const std::vector<NamedKey>& ours) {
  std::vector<std::string> ids;
  Pipeline pipeline;
  for (const NamedKey& each : ours) {
    const auto id = after(each.plain, "hot:pv:");
    if (!id) continue;
    ids.emplace_back(*id);
    // Visitors first: a report in between adds to both.
    pipeline.add("HGET", keys_.item(*id), "uv_less").add("PFCOUNT", keys_.uv_hll(*id));
    pipeline.add("MGET", keys_.pv(*id), keys_.dwell_count(*id), keys_.dwell_sum(*id));
  }
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t gone = redis::whole((*replies)[3 * i].string().value_or(""));
    item_counters(ids[i], (*replies)[3 * i + 1].integer().value_or(0) - gone, (*replies)[3 * i + 2]);
  }
  return {};
}

void KeyCheck::item_counters(const std::string& id, std::int64_t uv, const Reply& read) {
  if (text_at(read, 0).empty()) return;
  const auto pv = redis::parse<std::int64_t>(text_at(read, 0));
  const auto count = redis::parse<std::int64_t>(text_at(read, 1));
  const auto sum = redis::parse<std::int64_t>(text_at(read, 2));
  const std::string key = keys_.pv(id);
  ++sums_.items;
  sums_.pv += pv.value_or(0);
  if (!pv || !count || !sum) {
    findings_.add(kinds::kBadCounter, key, "without hot:dwell:cnt or hot:dwell:sum, or no integer");
    return;
  }
  if (*pv < 1 || *pv != *count) {
    findings_.add(kinds::kBadCounter, key, fmt::format("pv {}, hot:dwell:cnt {}", *pv, *count));
  }
  if (*sum < 0 || *sum / settings_.engagement.dwell_cap_ms > *count) {
    findings_.add(kinds::kBadCounter, key, fmt::format("{} ms of dwell in {} sessions", *sum, *count));
  }
  if (static_cast<double>(uv) > kHllError * static_cast<double>(*pv) + kHllSmall) {
    findings_.add(kinds::kUvAbovePv, key, fmt::format("pv {}, uv {}", *pv, uv));
  }
}

Result<void> KeyCheck::views(const std::vector<NamedKey>& ours) {
  std::vector<std::string> names;
  Pipeline pipeline;
  for (const NamedKey& each : ours) {
    if (!after(each.plain, "hot:views:")) continue;
    names.push_back(each.key);
    pipeline.add("HMGET", each.key, "total", "score", "pv");
  }
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (std::size_t i = 0; i < names.size(); ++i) item_views(names[i], (*replies)[i]);
  return {};
}

void KeyCheck::item_views(const std::string& key, const Reply& read) {
  const std::string total(text_at(read, 0)), score(text_at(read, 1)), pv(text_at(read, 2));
  if (read.is_error() || (total.empty() && pv.empty())) return;  // expired meanwhile
  const auto number = redis::parse<std::int64_t>(pv);
  sums_.views += number.value_or(0);
  if (!number || *number < 1) findings_.add(kinds::kBadCounter, key, "pv " + pv);
  if (!positive(total)) findings_.add(kinds::kBadScore, key, "total " + total);
  if (!positive(score)) findings_.add(kinds::kBadScore, key, "score " + score);
}

Result<void> KeyCheck::feeds(const std::vector<NamedKey>& ours) {
  const std::int64_t depth =
      std::max(settings_.recall.max_depth, settings_.recall.size) + std::int64_t{feed::kHotHead};
  struct Cap {
    std::string_view head, command;
    std::int64_t most;
  };
  const std::array caps{Cap{"feed:cache:", "LLEN", depth},
                        Cap{"feed:pending:", "ZCARD", kPendingPages * settings_.feed.max_pending},
                        Cap{"user:interactions:", "ZCARD", settings_.interactions.max_kept},
                        Cap{"user:earlier:", "STRLEN", 11 * settings_.interactions.max_earlier()},
                        Cap{"user:not_interested:", "ZCARD", settings_.feedback.most},
                        Cap{"user:views:topic:", "LLEN", settings_.history.size},
                        Cap{"user:views:reply:", "LLEN", settings_.history.size}};
  Pipeline pipeline;
  std::vector<std::pair<std::string, std::int64_t>> asked;
  for (const NamedKey& each : ours) {
    for (const Cap& cap : caps) {
      if (!after(each.plain, cap.head)) continue;
      pipeline.add(cap.command, each.key);
      asked.emplace_back(each.key, cap.most);
    }
  }
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::int64_t members = (*replies)[i].integer().value_or(0);
    if (members > asked[i].second)
      findings_.add(kinds::kOverCap, asked[i].first, fmt::format("{} of {}", members, asked[i].second));
  }
  return {};
}

}  // namespace freshet::ctl
