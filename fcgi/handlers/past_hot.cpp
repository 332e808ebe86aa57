#include "fcgi/handlers/past_hot.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "core/tuning/past_list.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/served_list.h"

namespace freshet::handlers {
namespace {

tuning::PastListQuery past_query(const HotListRequest& request, const Settings& settings) {
  using tuning::HotFormula;
  const hot::ListQuery& query = request.query;
  tuning::PastListQuery out;
  out.at = *request.at;
  out.window = query.window;
  out.values.base_hours = settings.views.base_hours;
  out.values.birth_views = settings.trending.birth_views;
  if (query.model == &hot::kViewsModel) {
    const bool is_current = query.mode == hot::ViewsMode::kCurrent;
    out.list = {is_current ? HotFormula::kCurrent : HotFormula::kAccumulate, settings.views.gamma};
  } else {
    const bool is_trending = query.model == &hot::kTrendingModel;
    out.list = {is_trending ? HotFormula::kTrending : HotFormula::kEngagement,
                static_cast<double>(query.model->half_life(settings).count())};
  }
  return out;
}

bool has_tag(const items::ItemCard& card, const TagName& tag) {
  return tag.empty() || std::ranges::any_of(card.tags, [&](const std::string& each) {
           return utf8::fold(each) == tag.view();
         });
}

}  // namespace

Task<Result<Response>> get_past_hot(Call& call, const HotListRequest& request) {
  constexpr std::size_t kBatch = 100;
  Services& services = call.services;
  const UnixSeconds now = wall_now();
  FRESHET_CO_TRY(past, co_await services.past_list(past_query(request, services.settings)));
  if (past->size() > kMaxPastItems) past->resize(kMaxPastItems);
  std::vector<hot::ListEntry> entries;
  for (std::size_t from = 0; from < past->size() && entries.size() < request.limit; from += kBatch) {
    const std::size_t end = std::min(past->size(), from + kBatch);
    std::vector<ItemId> ids;
    std::vector<double> scores;
    for (std::size_t i = from; i < end; ++i) {
      auto id = ItemId::parse((*past)[i].item, "id");
      if (!id) continue;
      ids.push_back(std::move(*id));
      scores.push_back((*past)[i].score);
    }
    FRESHET_CO_TRY(cards, co_await services.cards.get(ids));
    for (std::size_t i = 0; i < ids.size() && entries.size() < request.limit; ++i) {
      const items::SharedCard& card = (*cards)[i];
      const bool is_hidden = card->known ? card->is_hidden_at(now) : card->deleted;
      if (!is_hidden && has_tag(*card, request.query.tag))
        entries.push_back({std::move(ids[i]), scores[i], card->known ? card : nullptr});
    }
  }
  Response response = private_json(hot::HotList(hot::render(entries, *request.at)).first(request.limit));
  response.headers.append("Freshet-Model: ")
      .append(model_text(request.query, services.settings))
      .append("\r\n");
  co_return response;
}

}  // namespace freshet::handlers
