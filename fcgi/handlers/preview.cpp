#include "fcgi/handlers/preview.h"

#include <array>

#include "core/base/json.h"
#include "core/config/config_try.h"
#include "core/hot/preview.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse_hot.h"

namespace freshet::handlers {

namespace {

constexpr std::array<std::string_view, 6> kTriedOfEngagement{"hot.half_life",         "hot.pv_weight",
                                                             "hot.uv_weight",         "hot.dwell_weight",
                                                             "hot.dwell_prior_views", "hot.dwell_prior"};
constexpr std::array<std::string_view, 2> kTriedOfViews{"views.gamma", "views.base"};
// These are in the sums already.
constexpr std::array<std::string_view, 2> kSummedAlready{"views.pv_weight", "views.uv_weight"};

Result<Settings> settings_tried(const http::Target& target, const Settings& today, hot::Model model) {
  Settings settings = today;
  for (const std::string_view name : kSummedAlready) {
    if (target.parameter(name))
      return fail(ErrorCode::kInvalid, "bad_parameter", std::string(name), "is in what was counted already");
  }
  const auto apply = [&](const auto& names) -> Result<void> {
    for (const std::string_view name : names) {
      const auto value = target.parameter(name);
      if (!value) continue;
      if (auto set = try_directive(name, *value, settings); !set) return set;
    }
    return {};
  };
  const auto set = model == hot::Model::kViews ? apply(kTriedOfViews) : apply(kTriedOfEngagement);
  if (!set) return tl::unexpected(set.error());
  return settings;
}

// What the list was made with, as a header: the page's sliders stand there.
std::string in_force(const Settings& settings) {
  std::string out = "Freshet-Settings: ";
  const EngagementSettings& hot = settings.engagement;
  json::Writer writer(out);
  writer.begin_object().key("hot.half_life").integer(hot.half_life.count());
  writer.key("hot.pv_weight").number(hot.pv_weight).key("hot.uv_weight").number(hot.uv_weight);
  writer.key("hot.dwell_weight").number(hot.dwell_weight);
  writer.key("hot.dwell_prior_views")
      .number(hot.dwell_prior_views)
      .key("hot.dwell_prior")
      .number(hot.dwell_prior_ms);
  writer.key("views.gamma").number(settings.views.gamma).key("views.base").number(settings.views.base_hours);
  writer.end_object();
  return out.append("\r\n");
}

}  // namespace

Task<Result<Response>> get_preview(Call& call) {
  const UnixSeconds now = wall_now();
  FRESHET_CO_TRY(wanted, parse_hot(call.target, now));
  if (wanted->at) co_return fail(ErrorCode::kInvalid, "bad_parameter", "at", "a preview is of now");
  if (wanted->query.model == hot::Model::kViews && wanted->query.mode != hot::ViewsMode::kCurrent)
    co_return fail(ErrorCode::kInvalid, "bad_parameter", "mode",
                   "current: what accumulate added is decayed already");
  const auto settings = settings_tried(call.target, call.services.settings, wanted->query.model);
  if (!settings) co_return tl::unexpected(settings.error());
  const auto served =
      co_await hot::preview(call.services.bulk_hot, call.services.cards, *settings, wanted->query, now);
  if (!served) co_return tl::unexpected(served.error());
  Response response = private_json(served->list->first(wanted->limit));
  response.headers += in_force(*settings);
  co_return response;
}

}  // namespace freshet::handlers
