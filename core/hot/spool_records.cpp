#include "core/hot/spool_records.h"

#include "core/redis/fields.h"

namespace freshet::hot {
namespace {

// First field of a record, and its number of fields.
constexpr std::string_view kTrack = "track", kView = "view";
constexpr std::size_t kTrackFields = 14, kViewFields = 11;

void add(redis::SpoolRecord& out, const EventAdmission& admission) {
  out.add(admission.network).add(admission.wide_network);
  out.add(admission.may_create ? 1 : 0).add(admission.may_count ? 1 : 0);
}
EventAdmission parse_admission(const std::vector<std::string_view>& fields, std::size_t index) {
  return {std::string(fields[index]), std::string(fields[index + 1]), fields[index + 2] == "1",
          fields[index + 3] == "1"};
}

std::optional<UnixSeconds> parse_time(std::string_view text) {
  const auto at = redis::parse<std::int64_t>(text);
  return at ? std::optional(UnixSeconds{seconds{*at}}) : std::nullopt;
}

template <class Id>
Id parse_id(std::string_view text) {
  return Id::trusted(std::string(text));
}

}  // namespace

redis::SpoolRecord to_spool_record(const TrackEvent& event) {
  redis::SpoolRecord out(kTrack);
  out.add(event.item.view()).add(event.visitor.view()).add(event.session.view()).add(event.dwell_ms);
  out.add(event.published_at)
      .add(event.event_id.view())
      .add(event.occurred_at)
      .add(event.untrusted_dwell ? 1 : 0);
  out.add(event.attributed_to.view());
  add(out, event.admission);
  return out;
}

redis::SpoolRecord to_spool_record(const ViewEvent& event) {
  redis::SpoolRecord out(kView);
  out.add(event.item.view()).add(event.fingerprint).add(event.published_at).add(event.event_id.view());
  out.add(event.occurred_at).add(event.attributed_to.view());
  add(out, event.admission);
  return out;
}

bool is_hot_event(const std::vector<std::string_view>& fields) {
  return fields.front() == kTrack || fields.front() == kView;
}

std::string_view spooled_visitor(const std::vector<std::string_view>& fields) {
  if (fields.size() != (fields.front() == kTrack ? kTrackFields : kViewFields)) return {};
  return fields.front() == kTrack ? fields[2] : fields[6];
}

Task<Result<void>> apply_spool_record(HotStore& store, const std::vector<std::string_view>& fields) {
  if (fields.size() != (fields.front() == kTrack ? kTrackFields : kViewFields))
    co_return redis::malformed_event();
  if (fields.front() == kTrack) {
    const TrackEvent event{.item = parse_id<ItemId>(fields[1]),
                           .visitor = parse_id<VisitorId>(fields[2]),
                           .session = parse_id<SessionId>(fields[3]),
                           .dwell_ms = redis::parse_or_zero<std::int64_t>(fields[4]),
                           .published_at = parse_time(fields[5]),
                           .event_id = parse_id<EventId>(fields[6]),
                           .occurred_at = parse_time(fields[7]),
                           .untrusted_dwell = fields[8] == "1",
                           .attributed_to = parse_id<VisitorId>(fields[9]),
                           .admission = parse_admission(fields, 10)};
    FRESHET_CO_TRY(counts, co_await store.track(event));
  } else {
    const ViewEvent event{.item = parse_id<ItemId>(fields[1]),
                          .published_at = parse_time(fields[3]),
                          .fingerprint = std::string(fields[2]),
                          .event_id = parse_id<EventId>(fields[4]),
                          .occurred_at = parse_time(fields[5]),
                          .attributed_to = parse_id<VisitorId>(fields[6]),
                          .admission = parse_admission(fields, 7)};
    FRESHET_CO_TRY(outcome, co_await store.view(event));
  }
  co_return Result<void>();
}

}  // namespace freshet::hot
