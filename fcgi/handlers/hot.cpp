#include "fcgi/handlers/hot.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/hot/counting.h"
#include "core/hot/item_stats.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/last_lists.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/parse_hot.h"
#include "fcgi/handlers/past_hot.h"
#include "fcgi/handlers/queued.h"
#include "fcgi/handlers/read_body.h"
#include "fcgi/handlers/served_list.h"

namespace freshet::handlers {

namespace {

void write_counts(json::Writer& writer, const hot::TrackResult& counts) {
  writer.key("pv").integer(counts.pv).key("uv").integer(counts.uv);
  writer.key("avg_dwell_ms").number(counts.avg_dwell_ms).key("score").number(counts.score);
}

// A transparent GIF of one pixel.
constexpr std::string_view kPixel(
    "GIF89a\1\0\1\0\x80\0\0\0\0\0\0\0\0!\xf9\4\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;", 43);

constexpr std::string_view kViewNotCounted = R"({"ok":true,"uv":false,"scoreInc":0,"counted":false})";

// The reply to a crawler, whose report does not count: the article's current counters. Those of a
// hidden or embargoed item are as clients see them.
Task<Result<Response>> bot_reply(Call& call, const ItemId& item) {
  call.services.count_refusal(Refusal::kBot);
  std::vector<ItemId> ids(1, item);
  auto stats = co_await call.services.hot.stats(ids, hot::Ranks::kOmit);
  if (stats && !stats->front().visible) {
    ids.front() = hot::invisible_alias(item);
    auto unseen = co_await call.services.hot.stats(ids, hot::Ranks::kOmit);
    stats = std::move(unseen);
  }
  hot::TrackResult counts;
  if (stats) {  // a crawler gets no error
    const hot::ItemStats& item_stats = stats->front();
    const Settings& settings = call.services.settings;
    counts = {item_stats.pv, item_stats.uv,
              hot::engagement_terms(item_stats, settings.engagement).avg_dwell_ms,
              hot::score_terms(hot::kEngagementModel, item_stats, settings).score};
  }
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_counts(writer, counts);
  writer.key("counted").boolean(false).end_object();
  co_return private_json(std::move(out));
}

// Scopes an event id to the reader or the signed cookie, otherwise to the session or fingerprint
// that the report names (not to the address, which a phone may change before it retries). Anonymous
// ids must be long, because a client that guesses one could make the original report look like a
// repetition.
constexpr std::size_t kMinAnonymousEventIdBytes = 16;
Result<EventId> scope_event_id(const Call& call, const http::Principal& principal,
                               std::string_view anonymous_scope, const EventId& event) {
  if (event.empty()) return event;
  http::Identity& identity = call.services.identity;
  if (!principal.needs_cookie)
    return EventId::trusted(identity.pseudonym("event", principal.visitor.view(), event.view()));
  if (call.request.zone == Zone::kPublic && event.view().size() < kMinAnonymousEventIdBytes)
    return fail(ErrorCode::kInvalid, "bad_id", "eventId",
                "without a signed-in reader or a visitor cookie, at least 16 characters are required");
  return EventId::trusted(identity.pseudonym("named event", anonymous_scope, event.view()));
}

// Tells anonymous visitors apart. A back end that reports for its readers, and a client of mode
// `open`, may name only sessions: each is then a visitor, because all have the back end's address.
const std::string& fingerprint_of(const Call& call, const TrackBody& track) {
  const bool names_visitor =
      !track.fingerprint.empty() || !call.services.identity.trusts_claims(call.request.zone);
  return names_visitor ? track.fingerprint : track.event.session.str();
}

// Publish dates of public clients are accepted only within a day of now, because they decide the
// rank of articles that the site has not put. With items.unknown = list any past date is accepted,
// because later ones replace it (track.lua). Without a date the article counts as published now.
constexpr seconds kMaxPublishDateSkew{86400};
void sanitize_publish_date(const Call& call, std::optional<UnixSeconds>& published_at) {
  if (call.request.zone != Zone::kPublic || call.is_exempt || !published_at) return;
  const auto age = wall_now() - *published_at;
  const bool is_too_old = age > kMaxPublishDateSkew && call.services.settings.items_unknown != "list";
  if (is_too_old || age < -kMaxPublishDateSkew) published_at.reset();
}

// Decides how much a public client may add to the article, within its rate limits.
hot::EventAdmission admission_for(const Call& call) {
  hot::EventAdmission admission;
  if (call.request.zone != Zone::kPublic) return admission;
  http::Identity& identity = call.services.identity;
  admission.network = identity.network_pseudonym(call.request.remote_addr);
  admission.wide_network = identity.wide_network_pseudonym(call.request.remote_addr);
  admission.may_create = call.is_exempt || call.services.rate_limiter.may_create_article(
                                               admission.network, http::monotonic_us());
  return admission;
}

// An event's numbers among those of its visitor, and of all anonymous clients of its network, for
// this article.
struct EventNumbers {
  http::PageViewNumber visitor, network;
};

// Decides whether the event may count. Attributes its contribution to the visitor if they exceed
// limits.contribution_after for this article, else to the network if it does, else to no one. Call
// count_outcome() afterwards.
template <class Event>
EventNumbers number_event(Call& call, std::string_view endpoint, const http::Principal& principal,
                          Event& event) {
  http::RateLimiter& limits = call.services.rate_limiter;
  const auto number = [&](std::string_view source) {
    return limits.number_page_view(endpoint, source, event.item.view(), wall_now());
  };
  EventNumbers numbers;
  numbers.visitor = number(principal.stable_visitor.view());
  if (numbers.visitor.should_record) event.attributed_to = principal.stable_visitor;
  if (!call.is_anonymous()) return numbers;
  numbers.network = number(event.admission.network);
  event.admission.may_count = numbers.network.within_quota;
  if (event.attributed_to.empty() && numbers.network.should_record)
    event.attributed_to = VisitorId::trusted(event.admission.network);
  return numbers;
}

// Settles the quotas after the event. The number of a spooled event, or of one whose outcome is
// unknown, is not given back, because it may still count.
template <class Outcome>
void count_outcome(Call& call, const hot::EventAdmission& admission, const EventNumbers& numbers,
                   const Result<hot::CountResult<Outcome>>& result) {
  http::RateLimiter& limits = call.services.rate_limiter;
  const auto give_back = [&] {
    limits.give_back(numbers.visitor);
    limits.give_back(numbers.network);
  };
  if (!result) {
    if (result.error().code != ErrorCode::kUnknownOutcome) give_back();
    return;
  }
  if (result->queued) return;
  const hot::EventOutcome& outcome = result->result.outcome;
  if (outcome.refused) call.services.count_refusal(Refusal::kPageViewQuota);
  if (!outcome.refused && !outcome.counted) give_back();
  if (outcome.created && !admission.network.empty())
    limits.count_created_article(admission.network, http::monotonic_us());
}

void write_listed(json::Writer& writer, const hot::EventOutcome& outcome) {
  if (!outcome.listed) writer.key("listed").boolean(false);
}

// Keeps a viewed article out of the reader's feed and, with history.from_track, adds it to their
// history. `must_spool`: write the view to the spool, because it is not known yet whether it counts
// or whether the item exists. A report repeated with the same event id changes nothing. REQUIRES:
// Call::may_store(reader).
void record_history_view(Call& call, const ReaderId& reader, const ItemId& item, const EventId& event,
                         bool must_spool) {
  Services& services = call.services;
  const bool in_history = services.settings.history.from_track;
  const bool is_from_site = call.request.zone == Zone::kInternal;
  const readers::View view{reader, item, readers::ViewKind::kTopic, event, {}, is_from_site};
  if (!must_spool) {
    services.feed.record_use(reader, item, std::nullopt, in_history);
    if (in_history) services.record_view(view);
    return;
  }
  if (!in_history) return;
  if (auto spooled = services.readers.spool_history_view(view); !spooled)
    services.count_refusal(Refusal::kSpoolFull);
}

// How long nginx may keep a list, independent of max-age for clients: a hidden item must be gone
// within two seconds, and nginx counts whole seconds.
constexpr std::string_view kNginxCacheHeader = "\r\nX-Accel-Expires: 1\r\n";

std::string seconds_text(milliseconds span) {
  return std::to_string(std::max<std::int64_t>(1, std::chrono::ceil<seconds>(span).count()));
}

void add_floor_header(Response& response, const hot::HotList& list) {
  if (list.below_floor()) response.headers += "Freshet-Below-Floor: true\r\n";
}

void add_model_header(Response& response, const hot::ListQuery& query, const Settings& settings) {
  response.headers.append("Freshet-Model: ").append(model_text(query, settings)).append("\r\n");
}

// The last list of the host's workers, or else of this worker.
std::optional<Response> stale_response(const Services& services, const HotListRequest& query) {
  if (query.at) return std::nullopt;
  auto list = services.last_lists.load(query.query);
  if (!list) list = services.hot_lists.stale_copy(query.query);
  if (!list) return std::nullopt;
  Response response;
  response.headers = "Cache-Control: no-store\r\nFreshet-Degraded: true\r\n";
  add_floor_header(response, *list);
  add_model_header(response, query.query, services.settings);
  response.body = list->first(query.limit);
  return response;
}

// The article's position in the list of one model, and how it is computed.
void write_model(json::Writer& writer, const hot::ItemStats& stats, const hot::Model& model,
                 const Settings& settings) {
  const auto& [place, rank] = stats.position(model);
  if (model.base != nullptr) {
    const auto terms = hot::score_terms(model, stats, settings);
    writer.key("age_seconds").number(terms.age_seconds).key("decay").number(terms.decay);
    writer.key("base").number(terms.base).key("score").number(terms.score);
  } else if (model.is_computed()) {
    const auto terms = hot::trending_terms(stats, settings);
    writer.key("views").integer(terms.views).key("score").number(terms.score);
    writer.key("half_life")
        .integer(terms.half_life.count())
        .key("median_age")
        .integer(terms.median_age.count());
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
    const bool nested = &model != &hot::kEngagementModel;
    if (nested) writer.key(model.name).begin_object();
    write_model(writer, stats, model, settings);
    if (nested) writer.end_object();
  }
  writer.key("default_list").string(model_text(default_list(settings), settings)).key("tuned_at");
  settings.tuned_at == UnixSeconds() ? writer.null() : writer.integer(unix_s(settings.tuned_at));
  writer.end_object();
}

}  // namespace

Task<Result<Response>> post_track(Call& call) {
  Services& services = call.services;
  json::Document document;
  FRESHET_CO_TRY(body, read_body(call, document));
  FRESHET_CO_TRY(track, parse_track(*body, services.settings.engagement.dwell_cap_ms));
  if (call.is_bot()) {
    auto reply = co_await bot_reply(call, track->event.item);
    co_return reply;
  }
  FRESHET_CO_TRY(principal, call.identify({track->claimed_reader, fingerprint_of(call, *track)}));
  track->event.visitor = principal->visitor;
  track->event.admission = admission_for(call);
  sanitize_publish_date(call, track->event.published_at);
  track->event.untrusted_dwell = call.request.zone == Zone::kPublic && !call.is_exempt;
  const SessionId& session = track->event.session;
  FRESHET_CO_TRY(event,
                 scope_event_id(call, *principal, session.empty() ? track->fingerprint : session.view(),
                                track->event.event_id));
  track->event.event_id = std::move(*event);
  limit_event_id(call, track->event.event_id, track->event.item.view());
  track->event.session =
      SessionId::trusted(session.empty() ? principal->visitor.str()
                                         : services.identity.pseudonym("session", {}, session.view()));

  const EventNumbers numbers = number_event(call, "track", *principal, track->event);
  const auto counted = co_await hot::track(services.hot, track->event, call.must_spool());
  count_outcome(call, track->event.admission, numbers, counted);
  if (!counted) co_return with_item_member(counted.error(), "articleId");
  const bool stores_reader = call.may_store(principal->reader);
  if (stores_reader && !call.must_spool())
    services.record_interest(principal->reader, track->event.item, milliseconds(track->event.dwell_ms));
  if (stores_reader && (counted->queued || counted->result.outcome.counted))
    record_history_view(call, principal->reader, track->event.item, track->event.event_id,
                        call.must_spool() || counted->queued);
  if (counted->queued) co_return queued_reply(services);
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_counts(writer, counted->result);
  write_listed(writer, counted->result.outcome);
  if (counted->result.outcome.refused) writer.key("counted").boolean(false);
  writer.end_object();
  co_return private_json(std::move(out));
}

Task<Result<Response>> get_pixel(Call& call) {
  Services& services = call.services;
  FRESHET_CO_TRY(item, http::id_parameter<ItemId>(call.target, "articleId"));
  if (item->empty()) co_return fail(ErrorCode::kInvalid, "bad_id", "articleId", "is missing");
  Response pixel;
  pixel.content_type = "image/gif";
  pixel.headers = "Cache-Control: private, no-store\r\n";
  pixel.body = kPixel;
  const bool shows_article = call.request.method == Method::kGet && call.request.sec_purpose.empty();
  if (!shows_article) co_return pixel;
  if (call.is_bot()) {
    services.count_refusal(Refusal::kBot);
    co_return pixel;
  }
  const http::ClaimedIdentity no_claim;
  FRESHET_CO_TRY(principal, call.identify(no_claim));
  hot::TrackEvent event;
  event.item = std::move(*item);
  event.visitor = principal->visitor;
  event.session = SessionId::trusted(principal->visitor.str());
  event.admission = admission_for(call);
  const EventNumbers numbers = number_event(call, "track", *principal, event);
  const auto counted = co_await hot::track(services.hot, event, call.must_spool());
  count_outcome(call, event.admission, numbers, counted);
  if (!counted) co_return with_item_member(counted.error(), "articleId");
  co_return pixel;
}

Task<Result<Response>> post_views(Call& call) {
  Services& services = call.services;
  json::Document document;
  FRESHET_CO_TRY(body, read_body(call, document));
  FRESHET_CO_TRY(view, parse_view(*body));
  if (call.is_bot()) {
    services.count_refusal(Refusal::kBot);
    co_return private_json(std::string(kViewNotCounted));
  }
  const http::ClaimedIdentity no_claim;
  FRESHET_CO_TRY(principal, call.identify(no_claim));
  FRESHET_CO_TRY(event, scope_event_id(call, *principal, view->fingerprint, view->event_id));
  view->event_id = std::move(*event);
  limit_event_id(call, view->event_id, view->item.view());
  view->fingerprint = services.identity.pseudonym("fingerprint", {}, view->fingerprint);
  sanitize_publish_date(call, view->published_at);
  view->admission = admission_for(call);
  const EventNumbers numbers = number_event(call, "views", *principal, *view);
  const auto counted = co_await hot::view(services.hot, *view, call.must_spool());
  count_outcome(call, view->admission, numbers, counted);
  if (!counted) co_return with_item_member(counted.error(), "articleId");
  if ((counted->queued || counted->result.outcome.counted) && call.may_store(principal->reader))
    record_history_view(call, principal->reader, view->item, view->event_id,
                        call.must_spool() || counted->queued);
  if (counted->queued) co_return queued_reply(services);
  const hot::ViewResult& outcome = counted->result;
  if (outcome.tracked && services.settings.views.from_track) services.count_view_of_tracked();
  if (outcome.outcome.refused) co_return private_json(std::string(kViewNotCounted));
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
  const bool is_internal = call.request.zone == Zone::kInternal;
  FRESHET_CO_TRY(query, parse_hot(call.target, wall_now(), services.settings,
                                  is_internal ? PastMoments::kAccept : PastMoments::kReject));
  if (query->is_past) co_return co_await get_past_hot(call, *query);
  hot::HotLists& lists = services.hot_lists;
  call.request.on_deadline = [&services, &list_query = *query] {
    return stale_response(services, list_query);
  };
  auto reading = query->at ? lists.build_at(query->query, *query->at)
                           : lists.get(query->query, std::chrono::steady_clock::now());
  FRESHET_CO_TRY(served, co_await reading);
  if (!query->at && !served->degraded) {
    // A Redis without its data must not replace the lists from before.
    if (!services.has_lost_data()) services.last_lists.store(query->query, *served->list);
  } else if (!query->at) {
    if (auto last = services.last_lists.load(query->query)) served->list = std::move(last);
  }
  Response response;
  if (served->degraded) {
    response.headers = "Cache-Control: no-store\r\nFreshet-Degraded: true\r\n";
  } else if (query->at) {
    response.headers = "Cache-Control: no-store\r\n";
    if (services.has_lost_data()) response.headers += "Freshet-Degraded: true\r\n";
  } else {
    const ListSettings& list = services.settings.list;
    response.headers.append("ETag: ").append(served->list->etag(query->limit));
    response.headers.append("\r\nCache-Control: public, max-age=").append(seconds_text(list.worker_ttl));
    response.headers.append(", stale-while-revalidate=")
        .append(seconds_text(list.stale_while_revalidate))
        .append(kNginxCacheHeader);
    // This is what Redis has, and is cacheable as usual: the data may stay lost until an operator
    // restores it.
    if (services.has_lost_data()) response.headers += "Freshet-Degraded: true\r\n";
  }
  add_floor_header(response, *served->list);
  add_model_header(response, query->query, services.settings);
  response.body = served->list->first(query->limit);
  co_return response;
}

Task<Result<Response>> get_article_stats(Call& call) {
  FRESHET_CO_TRY(id, ItemId::parse(call.match.parameters[0], "id"));
  const std::vector<ItemId> ids(1, *id);
  FRESHET_CO_TRY(stats, co_await call.services.hot.stats(ids, hot::Ranks::kInclude));
  if (!stats->front().known)
    co_return fail(ErrorCode::kNotFound, "unknown_item", "id", "no events were counted for this article");
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
