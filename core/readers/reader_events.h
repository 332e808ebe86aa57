// Writes of readers' views, interactions and dismissals, which are spooled while Redis is
// unavailable. Writes that the recorder's full stream rejects ("stream_full") are not spooled: that
// is an answer, not an outage.
#pragma once

#include <vector>

#include "core/readers/ports.h"

namespace freshet::readers {

struct RecordResult {
  bool queued = false;  // spooled, to be applied when Redis is available
};

// A write that was not applied, or whose outcome is unknown (sent, no reply), is spooled. Repeating
// it is harmless, since it carries its time or an event id. `spool_now`: spool without trying Redis
// first. 1 RTT. Errors: as ReaderStore, and kUnavailable "spool_full".
Task<Result<RecordResult>> record_view(ReaderStore& store, const View& view, bool spool_now = false);
Task<Result<RecordResult>> clear_views(ReaderStore& store, const ReaderId& reader, ViewKind kind,
                                       bool spool_now = false);
Task<Result<RecordResult>> remove_view(ReaderStore& store, const ReaderId& reader, ViewKind kind,
                                       const ItemId& item, bool spool_now = false);
Task<Result<RecordResult>> record_interaction(ReaderStore& store, const ReaderEvent& event);
Task<Result<RecordResult>> dismiss(ReaderStore& store, const Dismissal& dismissal, bool spool_now = false);
Task<Result<RecordResult>> undo_dismissal(ReaderStore& store, const ReaderId& reader, const ItemId& item,
                                          bool spool_now = false);

// The same for several events. Returns one result per event, in order.
Task<std::vector<Result<RecordResult>>> record_interactions(ReaderStore& store,
                                                            const std::vector<ReaderEvent>& events);

}  // namespace freshet::readers
