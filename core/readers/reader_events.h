// What readers look at, do and do not want, also while Redis is away. Interactions and
// feedback that the recorder's full stream refuses are not kept: "stream_full" is an answer, not an
// absence.
#pragma once

#include <vector>

#include "core/readers/ports.h"

namespace freshet::readers {

struct RecordResult {
  bool queued = false;  // Redis could not take it; it waits in the spool and is applied later
};

// What was not applied, or whose fate is unknown (sent, no reply), goes to the spool: each of these
// is harmless when repeated, since it carries its time or an event id. Errors: as ReaderStore, and
// kUnavailable "spool_full". `later`: it goes there at once. 1 RTT.
Task<Result<RecordResult>> record_view(ReaderStore& store, const View& view, bool spool_now = false);
Task<Result<RecordResult>> clear_views(ReaderStore& store, const ReaderId& reader, ViewKind kind,
                                   bool spool_now = false);
Task<Result<RecordResult>> record_interaction(ReaderStore& store, const ReaderEvent& event);
Task<Result<RecordResult>> dismiss(ReaderStore& store, const Dismissal& dismissal, bool spool_now = false);
Task<Result<RecordResult>> undo_dismissal(ReaderStore& store, const ReaderId& reader, const ItemId& item,
                                      bool spool_now = false);

// The same for many events, each with an answer of its own, in their order.
Task<std::vector<Result<RecordResult>>> record_interactions(ReaderStore& store,
                                                        const std::vector<ReaderEvent>& events);

}  // namespace freshet::readers
