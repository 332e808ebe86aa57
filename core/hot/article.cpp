#include "core/hot/article.h"

#include <algorithm>
#include <cmath>

#include "core/redis/fields.h"

namespace freshet::hot {
namespace {

enum Field {
  kPv,
  kUv,
  kMs,
  kRenewed,
  kCorrection,
  kFirst,
  kDate,
  kEarly,
  kHidden,
  kVersion,
  kViews,
  kTotal,
  kScore,
  kViewed,
  kShown,
  kNets
};
constexpr std::array<std::string_view, 16> kFields{
    "pv",     "uv", "ms",    "renewed", "uv_correction", "first",  "date",  "early",
    "hidden", "v",  "views", "total",   "score",         "viewed", "shown", "nets"};

bool is_live(std::string_view renewed, seconds ttl, UnixSeconds now) {
  return !renewed.empty() && unix_s(now) < redis::to_int(renewed) + ttl.count();
}

}  // namespace

void append_article_read(redis::Pipeline& out, const redis::Keys& keys, std::string_view id) {
  out.command(2 + kFields.size()).arg("HMGET").arg(keys.article(id));
  for (const std::string_view name : kFields) out.arg(name);
}

Article parse_article(const redis::Reply& reply, UnixSeconds now, const Settings& settings) {
  const auto text = [&](Field field) { return redis::string_at(reply, field); };
  const auto number = [&](Field field) { return redis::to_int(text(field)); };
  Article out;
  if (is_live(text(kRenewed), settings.engagement.counter_ttl, now)) {
    const std::int64_t pv = number(kPv), uv = std::max<std::int64_t>(0, number(kUv) - number(kCorrection));
    out.counts = {pv, uv, number(kMs), pv};
  }
  if (text(kRenewed).empty() || out.counts.pv > 0) out.impressions = number(kShown);
  if (is_live(text(kViewed), settings.views.counter_ttl, now)) {
    out.views = number(kViews);
    out.views_total = redis::parse_or_zero<double>(text(kTotal));
  }
  out.views_score = redis::parse<double>(text(kScore));
  out.in_item_store = !text(kDate).empty();
  for (const Field field : {kDate, kFirst}) {
    if (!out.published && !text(field).empty()) out.published = UnixSeconds{seconds{number(field)}};
  }
  out.decay_start = std::min(
      text(kEarly).empty() ? out.published.value_or(now) : UnixSeconds{seconds{number(kEarly)}}, now);
  out.hidden = text(kHidden) == "1";
  out.listed = out.in_item_store || text(kNets).empty() || text(kNets).starts_with('+');
  out.version = number(kVersion);
  return out;
}

std::optional<double> rank_score(const Article& article, const Model& model, const Settings& settings) {
  if (!is_rankable(article)) return std::nullopt;
  if (model.base == nullptr) return article.views_score;
  if (article.counts.pv <= 0) return std::nullopt;
  const double key =
      rank_key(model.base(article.counts, settings), article.decay_start, model.half_life(settings));
  return std::isfinite(key) ? std::optional(key) : std::nullopt;
}

}  // namespace freshet::hot
