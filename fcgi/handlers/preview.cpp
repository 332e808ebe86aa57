#include "fcgi/handlers/preview.h"

#include <array>

#include "core/base/json.h"
#include "core/config/config_override.h"
#include "core/hot/preview.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse_hot.h"

namespace freshet::handlers {

namespace {

// These are in the sums already.
constexpr std::array<std::string_view, 2> kIngestWeights{"views.pv_weight", "views.uv_weight"};

Result<Settings> apply_overrides(const http::Target& target, const Settings& current, const hot::Model& model) {
  Settings settings = current;
  for (const std::string_view name : kIngestWeights) {
    if (target.parameter(name))
      return fail(ErrorCode::kInvalid, "bad_parameter", std::string(name), "is in what was counted already");
  }
  for (const std::string_view name : model.parameters) {
    const auto value = target.parameter(name);
    if (!value) continue;
    FRESHET_TRY(set, override_directive(name, *value, settings));
  }
  return settings;
}

// What the list was made with, as a header: the page's sliders stand there.
std::string settings_header(const Settings& settings) {
  std::string out = "Freshet-Settings: ";
  json::Writer writer(out);
  writer.begin_object();
  for (const hot::Model& model : hot::kModels) {
    for (const std::string_view name : model.parameters)
      writer.key(name).number(directive_value(name, settings));
  }
  writer.end_object();
  return out.append("\r\n");
}

}  // namespace

Task<Result<Response>> get_preview(Call& call) {
  const UnixSeconds now = wall_now();
  FRESHET_CO_TRY(query, parse_hot(call.target, now));
  if (query->at) co_return fail(ErrorCode::kInvalid, "bad_parameter", "at", "a preview is of now");
  if (query->query.model->base == nullptr && query->query.mode != hot::ViewsMode::kCurrent)
    co_return fail(ErrorCode::kInvalid, "bad_parameter", "mode",
                   "current: what accumulate added is decayed already");
  const auto settings = apply_overrides(call.target, call.services.settings, *query->query.model);
  if (!settings) co_return tl::unexpected(settings.error());
  const auto served =
      co_await hot::preview(call.services.hot_bulk, call.services.cards, *settings, query->query, now);
  if (!served) co_return tl::unexpected(served.error());
  Response response = private_json(served->list->first(query->limit));
  response.headers += settings_header(*settings);
  co_return response;
}

}  // namespace freshet::handlers
