#include "core/hot/stored_events.h"

#include "core/redis/fields.h"

namespace freshet::hot {
namespace {

// The first field of each, and how many there are.
constexpr std::string_view kTrack = "track", kView = "view";
constexpr std::size_t kTrackFields = 13, kViewFields = 10;

void add(redis::SpoolRecord& out, const Standing& standing) {
  out.add(standing.network).add(standing.may_begin ? 1 : 0).add(standing.in_uv ? 1 : 0);
}
Standing standing_of(const std::vector<std::string_view>& fields, std::size_t at) {
  return {std::string(fields[at]), fields[at + 1] == "1", fields[at + 2] == "1"};
}

std::optional<UnixSeconds> time_of(std::string_view text) {
  const auto at = redis::parse<std::int64_t>(text);
  return at ? std::optional(UnixSeconds{seconds{*at}}) : std::nullopt;
}

template <class Id>
Id id_of(std::string_view text) {
  return Id::trusted(std::string(text));
}

}  // namespace

redis::SpoolRecord stored(const TrackEvent& event) {
  redis::SpoolRecord out(kTrack);
  out.add(event.item.view()).add(event.visitor.view()).add(event.session.view()).add(event.dwell_ms);
  out.add(event.published_at).add(event.event.view()).add(event.at).add(event.unproven ? 1 : 0);
  out.add(event.counted_as.view());
  add(out, event.standing);
  return out;
}

redis::SpoolRecord stored(const ViewEvent& event) {
  redis::SpoolRecord out(kView);
  out.add(event.item.view()).add(event.fingerprint).add(event.published_at).add(event.event.view());
  out.add(event.at).add(event.counted_as.view());
  add(out, event.standing);
  return out;
}

bool is_ours(const std::vector<std::string_view>& fields) {
  return fields.front() == kTrack || fields.front() == kView;
}

std::string_view visitor_in(const std::vector<std::string_view>& fields) {
  if (fields.size() != (fields.front() == kTrack ? kTrackFields : kViewFields)) return {};
  return fields.front() == kTrack ? fields[2] : fields[6];
}

Task<Result<void>> apply(HotStore& store, const std::vector<std::string_view>& fields) {
  if (fields.size() != (fields.front() == kTrack ? kTrackFields : kViewFields))
    co_return redis::malformed_event();
  if (fields.front() == kTrack) {
    const TrackEvent event{.item = id_of<ItemId>(fields[1]),
                           .visitor = id_of<VisitorId>(fields[2]),
                           .session = id_of<SessionId>(fields[3]),
                           .dwell_ms = redis::parse_or_zero<std::int64_t>(fields[4]),
                           .published_at = time_of(fields[5]),
                           .event = id_of<EventId>(fields[6]),
                           .at = time_of(fields[7]),
                           .unproven = fields[8] == "1",
                           .counted_as = id_of<VisitorId>(fields[9]),
                           .standing = standing_of(fields, 10)};
    FRESHET_CO_TRY(counts, co_await store.track(event));
  } else {
    const ViewEvent event{.item = id_of<ItemId>(fields[1]),
                          .published_at = time_of(fields[3]),
                          .fingerprint = std::string(fields[2]),
                          .event = id_of<EventId>(fields[4]),
                          .at = time_of(fields[5]),
                          .counted_as = id_of<VisitorId>(fields[6]),
                          .standing = standing_of(fields, 7)};
    FRESHET_CO_TRY(outcome, co_await store.view(event));
  }
  co_return Result<void>();
}

}  // namespace freshet::hot
