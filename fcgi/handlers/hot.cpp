#include "fcgi/handlers/hot.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/hot/counting.h"
#include "core/hot/item_stats.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/parse_hot.h"
#include "fcgi/handlers/queued.h"

namespace freshet::handlers {

namespace {

void write_counts(json::Writer& writer, const hot::TrackResult& counts) {
  writer.key("pv").integer(counts.pv).key("uv").integer(counts.uv);
  writer.key("avg_dwell_ms").number(counts.avg_dwell_ms).key("score").number(counts.score);
}

// The article as it stands, for a reader whose report does not count.
Task<Result<Response>> not_counted(Call& call, const ItemId& item) {
  call.services.count(Refusal::kBot);
  const std::vector<ItemId> one(1, item);
  const auto stats = co_await call.services.hot.stats(one, hot::Ranks::kOmit);
  hot::TrackResult counts;
  if (stats) {  // a crawler is not worth an error
    const hot::ItemStats& known = stats->front();
    const Settings& settings = call.services.settings;
    counts = {known.pv, known.uv, hot::engagement_terms(known, settings.engagement).avg_dwell_ms,
              hot::score_terms(hot::kEngagementModel, known, settings).score};
  }
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_counts(writer, counts);
  writer.key("counted").boolean(false).end_object();
  co_return private_json(std::move(out));
}

// An event's id holds for the reader or the signed cookie, else for the session or fingerprint that
// the report names (not for an address, which a phone changes between a try and its repetition).
// Whoever guesses the id of an anonymous report could have it taken for repeated.
constexpr std::size_t kMinAnonymousEvent = 16;
Result<EventId> scoped(const Call& call, const http::Who& who, std::string_view named, const EventId& event) {
  if (event.empty()) return event;
  http::Identity& identity = call.services.identity;
  if (!who.without_cookie)
    return EventId::trusted(identity.key_name("event", who.visitor.view(), event.view()));
  if (call.request.zone == Zone::kPublic && event.view().size() < kMinAnonymousEvent)
    return fail(ErrorCode::kInvalid, "bad_id", "eventId",
                "without a reader or cookie it has at least 16 characters");
  return EventId::trusted(identity.key_name("named event", named, event.view()));
}

// A public client's word on when an article was published counts near now only: it decides for all
// readers where an article stands that nobody has put. Without one it counts as published now.
constexpr seconds kBelievedDate{86400};
void believe_date(const Call& call, std::optional<UnixSeconds>& published_at) {
  if (call.request.zone != Zone::kPublic || call.exempt || !published_at) return;
  const auto age = wall_now() - *published_at;
  if (age > kBelievedDate || age < -kBelievedDate) published_at.reset();
}

bool is_anonymous(const Call& call) {
  return call.request.zone == Zone::kPublic && !call.exempt && call.verified && call.verified->reader.empty();
}

// What a client of the public server may add to the article besides what its rate allows.
hot::EventAdmission standing_of(const Call& call, const ItemId& item) {
  hot::EventAdmission standing;
  if (call.request.zone != Zone::kPublic) return standing;
  standing.network = call.services.identity.network_of(call.request.remote_addr);
  const std::int64_t now_us = http::monotonic_us();
  const http::Limits& limits = call.services.limits;
  standing.may_create = call.exempt || limits.is_left(http::Share::kUnknown, standing.network, {}, now_us);
  standing.counts_as_visitor =
      !is_anonymous(call) || limits.is_left(http::Share::kVisitors, standing.network, item.view(), now_us);
  return standing;
}

// What it did add is taken from its share.
void take_shares(Call& call, const ItemId& item, const hot::EventAdmission& standing, const hot::EventOutcome& effect) {
  http::Limits& limits = call.services.limits;
  const std::int64_t now_us = http::monotonic_us();
  if (!standing.counts_as_visitor) call.services.count(Refusal::kUvBound);
  if (standing.network.empty()) return;
  if (effect.created) limits.use(http::Share::kUnknown, standing.network, {}, now_us);
  if (effect.new_visitor && is_anonymous(call))
    limits.use(http::Share::kVisitors, standing.network, item.view(), now_us);
}

// Under whom it is remembered what the report adds: nobody, for the first reports of a day of a
// visitor, or of a network of those who are not signed in.
VisitorId remembered_as(Call& call, const http::Who& who, const hot::EventAdmission& standing) {
  http::Limits& limits = call.services.limits;
  const std::string_view whose =
      is_anonymous(call) ? std::string_view(standing.network) : who.counted_as.view();
  const std::int64_t now_us = http::monotonic_us();
  if (call.services.settings.limits.contribution_after == 0 ||
      !limits.is_left(http::Share::kUnremembered, whose, {}, now_us))
    return who.counted_as;
  limits.use(http::Share::kUnremembered, whose, {}, now_us);
  return {};
}

void write_listed(json::Writer& writer, const hot::EventOutcome& effect) {
  if (!effect.listed) writer.key("listed").boolean(false);
}

// A page view that is the history's view as well (history.from_track); `later` when it is not known
// to be counted, for then the item may be unknown. A report that is repeated under its event id
// moves nothing.
void view_for_history(Call& call, const ReaderId& reader, const ItemId& item, const EventId& event,
                      bool later) {
  Services& services = call.services;
  if (!services.settings.history.from_track || reader.empty()) return;
  const readers::View view{reader, item, readers::ViewKind::kTopic, event};
  if (!later) return services.readers.record_view_async(view);
  if (auto kept = services.readers.spool_history_view(view); !kept) services.count(Refusal::kSpoolFull);
}

// How long nginx keeps a list, whatever clients may do: a hidden item must be gone within two
// seconds, and nginx counts whole ones.
constexpr std::string_view kForNginx = "\r\nX-Accel-Expires: 1\r\n";

std::string seconds_text(milliseconds span) {
  return std::to_string(std::max<std::int64_t>(1, std::chrono::ceil<seconds>(span).count()));
}

std::optional<Response> last_copy(const hot::HotLists& lists, const HotRequest& wanted) {
  const auto list = wanted.at ? nullptr : lists.stale_copy(wanted.query);
  if (!list) return std::nullopt;
  Response response;
  response.headers = "Cache-Control: no-store\r\nFreshet-Degraded: true\r\n";
  response.body = list->first(wanted.limit);
  return response;
}

// How it stands in the list of one model, and why.
void write_model(json::Writer& writer, const hot::ItemStats& stats, const hot::Model& model,
                 const Settings& settings) {
  const auto& [place, rank] = stats.position(model);
  if (model.base != nullptr) {
    const auto terms = hot::score_terms(model, stats, settings);
    writer.key("age_seconds").number(terms.age_seconds).key("decay").number(terms.decay);
    writer.key("base").number(terms.base).key("score").number(terms.score);
  } else {
    const auto views = hot::views_terms(stats, settings.views);
    writer.key("pv").integer(stats.views_pv).key("total").number(stats.views_total);
    writer.key("uv_today").integer(stats.uv_today).key("score").number(place.value_or(0));
    writer.key("hours").number(views.hours).key("divisor").number(views.divisor);
    writer.key("current").number(views.current);
  }
  writer.key("rank");
  rank ? writer.integer(*rank) : writer.null();
}

void write_stats(json::Writer& writer, const hot::ItemStats& stats, const Settings& settings) {
  const auto terms = hot::engagement_terms(stats, settings.engagement);
  writer.begin_object().key("pv").integer(stats.pv).key("uv").integer(stats.uv);
  if (!stats.listed) writer.key("listed").boolean(false);
  writer.key("avg_dwell_ms").number(terms.avg_dwell_ms);
  writer.key("dwell").begin_object().key("sum_ms").integer(stats.dwell_sum_ms);
  writer.key("count").integer(stats.dwell_count).end_object();
  const auto click_through = hot::click_through_rate(stats);
  writer.key("shown").integer(stats.impressions).key("click_through");
  click_through ? writer.number(*click_through) : writer.null();
  writer.key("first_ts").integer(stats.decay_start.time_since_epoch().count());
  writer.key("terms").begin_object().key("pv").number(terms.from_pv);
  writer.key("uv").number(terms.from_uv).key("dwell").number(terms.from_dwell).end_object();
  for (const hot::Model& model : hot::kModels) {
    const bool inside = &model != &hot::kEngagementModel;
    if (inside) writer.key(model.name).begin_object();
    write_model(writer, stats, model, settings);
    if (inside) writer.end_object();
  }
  writer.end_object();
}

}  // namespace

Task<Result<Response>> post_track(Call& call) {
  Services& services = call.services;
  json::Document document;
  FRESHET_CO_TRY(body, read_object(document, call.request.body));
  FRESHET_CO_TRY(track, parse_track(*body, services.settings.engagement.dwell_cap_ms));
  if (call.is_bot()) {
    auto shown = co_await not_counted(call, track->event.item);
    co_return shown;
  }
  FRESHET_CO_TRY(who, call.who({track->user, track->fingerprint}));
  track->event.visitor = who->visitor;
  track->event.admission = standing_of(call, track->event.item);
  track->event.attributed_to = remembered_as(call, *who, track->event.admission);
  believe_date(call, track->event.published_at);
  track->event.untrusted_dwell = call.request.zone == Zone::kPublic && !call.exempt;
  const SessionId& session = track->event.session;
  FRESHET_CO_TRY(
      event, scoped(call, *who, session.empty() ? track->fingerprint : session.view(), track->event.event_id));
  track->event.event_id = std::move(*event);
  track->event.session = SessionId::trusted(
      session.empty() ? who->visitor.str() : services.identity.key_name("session", {}, session.view()));

  const auto counted = co_await hot::track(services.hot, track->event, call.writes_later());
  if (!counted) co_return refused(counted.error(), "articleId");
  if (!who->reader.empty() && !call.writes_later())
    services.note_reading(who->reader, track->event.item, milliseconds(track->event.dwell_ms));
  view_for_history(call, who->reader, track->event.item, track->event.event_id,
                   call.writes_later() || counted->queued);
  take_shares(call, track->event.item, track->event.admission, counted->result.outcome);
  if (counted->queued) co_return queued_reply(services);
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_counts(writer, counted->result);
  write_listed(writer, counted->result.outcome);
  writer.end_object();
  co_return private_json(std::move(out));
}

Task<Result<Response>> post_views(Call& call) {
  Services& services = call.services;
  json::Document document;
  FRESHET_CO_TRY(body, read_object(document, call.request.body));
  FRESHET_CO_TRY(view, parse_view(*body));
  if (call.is_bot()) {
    services.count(Refusal::kBot);
    co_return private_json("{\"ok\":true,\"uv\":false,\"scoreInc\":0,\"counted\":false}");
  }
  const http::Claim nothing;
  FRESHET_CO_TRY(who, call.who(nothing));
  FRESHET_CO_TRY(event, scoped(call, *who, view->fingerprint, view->event_id));
  view->event_id = std::move(*event);
  view->fingerprint = services.identity.key_name("fingerprint", {}, view->fingerprint);
  believe_date(call, view->published_at);
  view->admission = standing_of(call, view->item);
  view->attributed_to = remembered_as(call, *who, view->admission);
  const auto counted = co_await hot::view(services.hot, *view, call.writes_later());
  if (!counted) co_return refused(counted.error(), "articleId");
  view_for_history(call, who->reader, view->item, view->event_id, call.writes_later() || counted->queued);
  take_shares(call, view->item, view->admission, counted->result.outcome);
  if (counted->queued) co_return queued_reply(services);
  const hot::ViewResult& outcome = counted->result;
  if (outcome.dedup) co_return private_json("{\"ok\":true,\"dedup\":true}");
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("ok").boolean(true).key("uv").boolean(outcome.first_today);
  writer.key("scoreInc").number(outcome.score_inc);
  write_listed(writer, outcome.outcome);
  writer.end_object();
  co_return private_json(std::move(out));
}

Task<Result<Response>> get_hot(Call& call) {
  Services& services = call.services;
  FRESHET_CO_TRY(wanted, parse_hot(call.target, wall_now()));
  hot::HotLists& lists = services.lists;
  call.request.if_late = [&lists, &asked = *wanted] { return last_copy(lists, asked); };
  auto reading = wanted->at ? lists.build_at(wanted->query, *wanted->at)
                            : lists.get(wanted->query, std::chrono::steady_clock::now());
  FRESHET_CO_TRY(served, co_await reading);
  Response response;
  if (served->degraded) {
    response.headers = "Cache-Control: no-store\r\nFreshet-Degraded: true\r\n";
  } else if (wanted->at) {
    response.headers = "Cache-Control: no-store\r\n";
    if (services.redis_lost()) response.headers += "Freshet-Degraded: true\r\n";
  } else {
    const ListSettings& list = services.settings.list;
    response.headers.append("ETag: ").append(served->list->etag(wanted->limit));
    response.headers.append("\r\nCache-Control: public, max-age=").append(seconds_text(list.worker_ttl));
    response.headers.append(", stale-while-revalidate=")
        .append(seconds_text(list.stale_while_revalidate))
        .append(kForNginx);
    // It is what Redis has, and may be cached as ever: a loss can last until somebody comes.
    if (services.redis_lost()) response.headers += "Freshet-Degraded: true\r\n";
  }
  response.body = served->list->first(wanted->limit);
  co_return response;
}

Task<Result<Response>> get_article_stats(Call& call) {
  FRESHET_CO_TRY(id, ItemId::parse(call.match.parameters[0], "id"));
  const std::vector<ItemId> one(1, *id);
  FRESHET_CO_TRY(stats, co_await call.services.hot.stats(one, hot::Ranks::kInclude));
  if (!stats->front().known)
    co_return fail(ErrorCode::kNotFound, "unknown_item", "id", "nothing was counted for it");
  std::string out;
  json::Writer writer(out);
  write_stats(writer, stats->front(), call.services.settings);
  co_return private_json(std::move(out));
}

Task<Result<Response>> get_stats(Call& call) {
  FRESHET_CO_TRY(ids, parse_ids(call.target));
  FRESHET_CO_TRY(stats, co_await call.services.hot.stats(*ids, hot::Ranks::kInclude));
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  for (std::size_t i = 0; i < ids->size(); ++i) {
    writer.key((*ids)[i].view());
    write_stats(writer, (*stats)[i], call.services.settings);
  }
  writer.end_object();
  co_return private_json(std::move(out));
}

}  // namespace freshet::handlers
