#include "core/readers/spool_records.h"

#include "core/redis/fields.h"

namespace freshet::readers {
namespace {

// First field of each record.
constexpr std::string_view kHistory = "history", kInteraction = "interaction", kDismissal = "dismissal",
                           kUndo = "undo", kClear = "clear", kRemoval = "removal";
constexpr std::string_view kTopic = "topic", kReply = "reply";

std::string_view view_kind_name(ViewKind kind) { return kind == ViewKind::kTopic ? kTopic : kReply; }
ViewKind kind_of(std::string_view word) { return word == kTopic ? ViewKind::kTopic : ViewKind::kReply; }

UnixSeconds parse_time(std::string_view text) {
  return UnixSeconds{seconds{redis::parse_or_zero<std::int64_t>(text)}};
}
ReaderId reader_of(std::string_view text) { return ReaderId::trusted(std::string(text)); }
ItemId item_of(std::string_view text) { return ItemId::trusted(std::string(text)); }
EventId event_of(std::string_view text) { return EventId::trusted(std::string(text)); }

}  // namespace

redis::SpoolRecord to_spool_record(const View& view) {
  redis::SpoolRecord out(kHistory);
  out.add(view.reader.view()).add(view.item.view()).add(view_kind_name(view.kind));
  return out.add(view.event.view()).add(view.at);
}

redis::SpoolRecord to_spool_record(const ReaderEvent& event) {
  redis::SpoolRecord out(kInteraction);
  out.add(event.reader.view()).add(event.item.view()).add(std::string(1, kind_of(event.kind).letter));
  return out.add(event.event.view()).add(event.at);
}

redis::SpoolRecord to_spool_record(const Dismissal& dismissal) {
  redis::SpoolRecord out(kDismissal);
  out.add(dismissal.reader.view()).add(dismissal.item.view()).add(dismissal.reason);
  return out.add(dismissal.event.view()).add(dismissal.at);
}

redis::SpoolRecord undo_spool_record(const ReaderId& reader, const ItemId& item, UnixSeconds at) {
  return redis::SpoolRecord(kUndo).add(reader.view()).add(item.view()).add(at);
}

redis::SpoolRecord clear_spool_record(const ReaderId& reader, ViewKind kind, UnixSeconds until) {
  return redis::SpoolRecord(kClear).add(reader.view()).add(view_kind_name(kind)).add(until);
}

redis::SpoolRecord removal_spool_record(const ReaderId& reader, ViewKind kind, const ItemId& item,
                                        UnixSeconds at) {
  return redis::SpoolRecord(kRemoval).add(reader.view()).add(view_kind_name(kind)).add(item.view()).add(at);
}

std::string_view reader_of_record(const std::vector<std::string_view>& fields) {
  return fields.size() < 4 ? std::string_view() : fields[kReaderField];
}

Task<Result<void>> apply_spool_record(ReaderStore& store, const std::vector<std::string_view>& fields) {
  const std::string_view kind = fields.front();
  const auto is = [&](std::string_view word, std::size_t size) {
    return kind == word && fields.size() == size;
  };
  Result<void> done = redis::malformed_event();
  if (is(kHistory, 6)) {
    const View view{reader_of(fields[1]), item_of(fields[2]), kind_of(fields[3]), event_of(fields[4]),
                    parse_time(fields[5])};
    done = co_await store.record_view(view);
  } else if (is(kInteraction, 6) && fields[3].size() == 1 && interaction_from_letter(fields[3].front())) {
    const std::vector<ReaderEvent> one{{reader_of(fields[1]), item_of(fields[2]),
                                        *interaction_from_letter(fields[3].front()), parse_time(fields[5]),
                                        event_of(fields[4])}};
    FRESHET_CO_TRY(answers, co_await store.record_interactions(one));
    done = answers->front();
  } else if (is(kDismissal, 6)) {
    const Dismissal dismissal{reader_of(fields[1]), item_of(fields[2]), std::string(fields[3]),
                              event_of(fields[4]), parse_time(fields[5])};
    done = co_await store.dismiss(dismissal);
  } else if (is(kUndo, 4)) {
    const ReaderId reader = reader_of(fields[1]);
    const ItemId item = item_of(fields[2]);
    done = co_await store.undo_dismissal(reader, item, parse_time(fields[3]));
  } else if (is(kClear, 4)) {
    const ReaderId reader = reader_of(fields[1]);
    done = co_await store.clear_views(reader, kind_of(fields[2]), parse_time(fields[3]));
  } else if (is(kRemoval, 5)) {
    const ReaderId reader = reader_of(fields[1]);
    const ItemId item = item_of(fields[3]);
    done = co_await store.remove_view(reader, kind_of(fields[2]), item, parse_time(fields[4]));
  }
  co_return done;
}

}  // namespace freshet::readers
