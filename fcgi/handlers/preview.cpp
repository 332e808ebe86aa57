#include "fcgi/handlers/preview.h"

#include <array>

#include "core/base/json.h"
#include "core/config/aliases.h"
#include "core/config/config_override.h"
#include "core/hot/preview.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/parse_hot.h"

namespace freshet::handlers {

namespace {

// Applied when an event is counted, so a preview cannot change them.
constexpr std::array<std::string_view, 2> kIngestWeights{"views.pv_weight", "views.uv_weight"};

constexpr std::array kBooleanNames{EnumName<bool>{"false", false}, EnumName<bool>{"true", true}};

Result<Settings> apply_overrides(const http::Target& target, const Settings& current,
                                 const hot::Model& model) {
  Settings settings = current;
  for (const std::string_view name : kIngestWeights) {
    if (target.parameter(name))
      return fail(ErrorCode::kInvalid, "bad_parameter", std::string(name),
                  "applies when events are counted, so a preview cannot change it");
  }
  for (const std::string_view name : model.parameters) {
    auto value = target.parameter(name);
    if (const NameAlias* alias = alias_of(name); alias && !value)
      value = target.parameter(alias->former_name);
    if (!value) continue;
    FRESHET_TRY(set, override_directive(name, *value, settings));
  }
  return settings;
}

// A header with the settings that the list was made with; the page sets its sliders to them.
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
  FRESHET_CO_TRY(query, parse_hot(call.target, now, call.services.settings));
  if (query->at) co_return fail(ErrorCode::kInvalid, "bad_parameter", "at", "not supported in a preview");
  if (!query->query.model->is_computed() && query->query.mode != hot::ViewsMode::kCurrent)
    co_return fail(ErrorCode::kInvalid, "bad_parameter", "mode",
                   "must be current: accumulated scores are already decayed");
  FRESHET_CO_TRY(
      compares, parse_enum(kBooleanNames, "compare", call.target.parameter("compare"), std::optional(false)));
  auto settings = apply_overrides(call.target, call.services.settings, *query->query.model);
  if (!settings) co_return tl::unexpected(settings.error());
  if (!hot::trending_index(settings->trending.half_life))
    co_return fail(ErrorCode::kInvalid, "bad_parameter", "trending.half_life",
                   "must be 5m, 15m, 1h, 6h or 24h");
  std::vector<Settings> variants{*std::move(settings)};
  if (*compares) variants.push_back(call.services.settings);
  const auto lists =
      co_await hot::preview(call.services.hot_bulk, call.services.cards, variants, query->query, now);
  if (!lists) co_return tl::unexpected(lists.error());
  std::string body = lists->front()->first(query->limit);
  if (*compares)
    body = "{\"preview\":" + body + ",\n\"configured\":" + lists->back()->first(query->limit) + "}";
  Response response = private_json(std::move(body));
  response.headers += settings_header(variants.front());
  co_return response;
}

}  // namespace freshet::handlers
