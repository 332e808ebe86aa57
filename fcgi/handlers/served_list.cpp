#include "fcgi/handlers/served_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace freshet::handlers {
namespace {

// In hours, minutes or seconds, the first that gives a whole number: "15m".
std::string short_duration(seconds span) {
  if (span.count() % 3600 == 0) return std::to_string(span.count() / 3600) + "h";
  if (span.count() % 60 == 0) return std::to_string(span.count() / 60) + "m";
  return std::to_string(span.count()) + "s";
}

}  // namespace

hot::ListQuery default_list(const Settings& settings) {
  hot::ListQuery out;
  const auto found = std::ranges::find(hot::kModels, settings.hot_default_model, &hot::Model::name);
  if (found != hot::kModels.end()) out.model = &*found;
  if (out.model == &hot::kViewsModel && settings.views_default_mode == "current")
    out.mode = hot::ViewsMode::kCurrent;
  return out;
}

std::string model_text(const hot::ListQuery& list, const Settings& settings) {
  const std::string name(list.model->name);
  if (list.model->is_computed())
    return name + "; half_life=" + short_duration(list.model->half_life(settings));
  return name + (list.mode == hot::ViewsMode::kCurrent ? "; mode=current" : "; mode=accumulate");
}

std::string feed_text(const RecallSettings& settings) {
  const auto days = settings.decay_scale.count() / 86400;
  const std::string scale = days * 86400 == settings.decay_scale.count()
                                ? std::to_string(days) + "d"
                                : short_duration(settings.decay_scale);
  return fmt::format("scale={}; interests={}; trend={}", scale, settings.interest_weight,
                     settings.trend_weight);
}

}  // namespace freshet::handlers
