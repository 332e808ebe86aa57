// Counts readers' events, reports of reading (`track`) and views (`view`), also while Redis is
// unavailable.
#pragma once

#include "core/hot/ports.h"

namespace freshet::hot {

template <class Outcome>
struct CountResult {
  bool queued = false;  // spooled because Redis could not take it; counted once, later
  Outcome result{};     // valid unless queued
};

// Counts the event, or spools it when Redis certainly did not apply it. An event with an unknown
// outcome (sent, no reply) is spooled only if it has an event id, which makes the retry idempotent;
// otherwise the error kUnknownOutcome is returned. `must_spool`: spool without trying Redis.
// Errors: HotStore's, and kUnavailable "spool_full". 1 RTT.
Task<Result<CountResult<TrackResult>>> track(HotStore& store, const TrackEvent& event,
                                             bool must_spool = false);
Task<Result<CountResult<ViewResult>>> view(HotStore& store, const ViewEvent& event, bool must_spool = false);

}  // namespace freshet::hot
