// Counting what readers do: engagement (`track`) and views (`views`), also while Redis is away.
#pragma once

#include "core/hot/ports.h"

namespace freshet::hot {

template <class Outcome>
struct CountResult {
  bool queued = false;  // Redis could not take it; it waits in the spool and counts once, later
  Outcome result{};    // when not queued
};

// An event that was certainly not applied goes to the spool. One whose fate is unknown (sent, no
// reply) goes there only when it carries an event id, which makes the repetition harmless;
// otherwise the client is told (kUnknownOutcome). `later`: it goes there at once. Errors: as
// HotStore, and kUnavailable "spool_full". 1 RTT.
Task<Result<CountResult<TrackResult>>> track(HotStore& store, const TrackEvent& event, bool must_spool = false);
Task<Result<CountResult<ViewResult>>> view(HotStore& store, const ViewEvent& event, bool must_spool = false);

}  // namespace freshet::hot
