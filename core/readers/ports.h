// What this room needs of storage: what readers looked at, what they did, and what they do not
// want. reader_store.h implements it on Redis; interactions and feedback also go through the
// recorder's stream to SQLite. Every method is 1 RTT, and a write atomic for one reader, unless it
// says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/readers/interaction.h"

namespace freshet::readers {

enum class ViewKind : std::uint8_t { kTopic, kReply };

struct View {
  ReaderId reader;
  ItemId item;
  ViewKind kind = ViewKind::kTopic;
  EventId event = {};                  // as of ReaderEvent
  std::optional<UnixSeconds> at = {};  // when, in the past; nullopt: now, by Redis' clock
};

struct ViewedItem {
  ItemId item;
  UnixSeconds at;
};

// One thing a reader did. `event` makes it idempotent for 24 hours: the same one again changes
// nothing.
struct ReaderEvent {
  ReaderId reader;
  ItemId item;
  Interaction kind = Interaction::kLike;
  UnixSeconds at;  // never later than now by Redis' clock: later ones are clamped
  EventId event;   // empty: not idempotent
};

struct Dismissal {
  ReaderId reader;
  ItemId item;
  std::string reason;  // at most 200 bytes, may be empty
  EventId event;
  std::optional<UnixSeconds> at = {};  // as of View
};

// As SQLite keeps them.
struct DismissalRecord {
  Dismissal dismissal;
  UnixSeconds at;
};

struct Follow {
  ReaderId reader;
  AuthorId author;
  UnixSeconds at;
};

struct InteractionRecord {  // of ReaderState: the newest time of each item and kind
  ItemId item;
  Interaction kind = Interaction::kLike;
  UnixSeconds at;
};

using Fingerprints = std::shared_ptr<const std::unordered_set<std::uint64_t>>;  // core/base/fingerprint.h

// All that a recommendation must know of a reader.
struct ReaderState {
  std::vector<ViewedItem> topic_views;   // newest first, distinct, at most history.size
  std::vector<ViewedItem> reply_views;  // likewise
  std::vector<InteractionRecord> interactions;       // newest first, at most interactions.max_kept; long reads (kView) among them
  Fingerprints archived;         // of the items of those beyond, but for long reads; null: none
  std::vector<ViewedItem> dismissals;  // not interested, within feedback.ttl; newest first
};

class ReaderStore {
 public:
  virtual ~ReaderStore() = default;

  // The view becomes the reader's newest; an earlier one of the same item moves up. The very next
  // read() on any worker knows it. Errors of all methods: Redis' own.
  virtual Task<Result<void>> record_view(const View& view) = 0;
  virtual Task<Result<std::vector<ViewedItem>>> views(const ReaderId& reader, ViewKind kind) = 0;
  // Of those before `until`; nullopt: of all. What is viewed meanwhile stays. 2 RTT,
  // of a cluster 3.
  virtual Task<Result<void>> clear_views(const ReaderId& reader, ViewKind kind,
                                         std::optional<UnixSeconds> until) = 0;
  // Both kinds: `to` has the newest of both histories by time, `from` none. Merging one into itself
  // changes nothing. 3 RTT, not atomic: what fails in between is made whole by doing it again, and
  // what `from` views meanwhile stays there.
  virtual Task<Result<void>> merge_views(const ReaderId& from, const ReaderId& to) = 0;

  // 2 RTT for all of them, in order. An answer for each, in the order given: an error of one event
  // (kUnavailable "stream_full", …) leaves the others alone. The outer error: Redis did not answer.
  virtual Task<Result<std::vector<Result<void>>>> record_interactions(const std::vector<ReaderEvent>& events) = 0;
  // Adds or renews the exclusion for feedback.ttl; undo takes it back. 2 RTT, up to 5 of a
  // dismissal with a time. Errors also: kUnavailable "stream_full".
  virtual Task<Result<void>> dismiss(const Dismissal& dismissal) = 0;
  virtual Task<Result<void>> undo_dismissal(const ReaderId& reader, const ItemId& item,
                                            std::optional<UnixSeconds> at) = 0;

  // What was acknowledged before is in it; of what happens meanwhile any part may be.
  virtual Task<Result<ReaderState>> read(const ReaderId& reader) = 0;

  // Behind the reply, no waiting: viewed() a moment later, in its place by time; once for an event.
  // Lost when neither the queue nor the spool has room.
  virtual void record_view_async(const View& view) = 0;

  // When Redis is away: kept where it survives this process and applied, once, when Redis answers
  // again. No round trip. Errors: kUnavailable "spool_full".
  virtual Result<void> spool_history_view(const View& view) = 0;
  virtual Result<void> spool_interaction(const ReaderEvent& event) = 0;
  virtual Result<void> spool_dismissal(const Dismissal& dismissal) = 0;
  virtual Result<void> spool_undo_dismissal(const ReaderId& reader, const ItemId& item) = 0;
  virtual Result<void> spool_clear_views(const ReaderId& reader, ViewKind kind) = 0;
};

}  // namespace freshet::readers
