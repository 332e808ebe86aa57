#include "core/hot/views.h"

#include <algorithm>
#include <cmath>

namespace freshet::hot {

double view_increment(bool first_today, const ViewsSettings& settings) {
  return settings.pv_weight + (first_today ? settings.uv_weight : 0.0);
}

double hours_since(UnixSeconds published, UnixSeconds now) {
  return static_cast<double>(std::max(now - published, seconds{0}).count()) / 3600.0;
}

double power_law(double hours, const ViewsSettings& settings) {
  return std::pow(hours + settings.base_hours, settings.gamma);
}

double view_score(double total, UnixSeconds published, UnixSeconds now, const ViewsSettings& settings) {
  return total / power_law(hours_since(published, now), settings);
}

double age_of_score(double total, double score, const ViewsSettings& settings) {
  const double hours = std::pow(total / score, 1 / settings.gamma) - settings.base_hours;
  return std::isfinite(hours) ? std::max(hours, 0.0) * 3600 : 0;
}

}  // namespace freshet::hot
