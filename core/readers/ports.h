// Storage port of this module: reading history, interactions and dismissals. reader_store.h
// implements it on Redis; interactions and dismissals also go through the recorder's stream to
// SQLite. Every method is 1 RTT, and writes are atomic per reader, unless stated otherwise.
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
  EventId event = {};                  // see ReaderEvent
  std::optional<UnixSeconds> at = {};  // in the past; nullopt: now, by Redis' clock
  // With items.unknown = reject, only the site may name a hidden or embargoed item.
  bool is_from_site = false;
};

struct ViewedItem {
  ItemId item;
  UnixSeconds at;
};

// One interaction of a reader. `event` makes it idempotent for 24 hours.
struct ReaderEvent {
  ReaderId reader;
  ItemId item;
  Interaction kind = Interaction::kLike;
  UnixSeconds at;  // times after Redis' clock are clamped to now
  EventId event;   // empty: not idempotent
};

struct Dismissal {
  ReaderId reader;
  ItemId item;
  std::string reason;  // at most 200 bytes, may be empty
  EventId event;
  std::optional<UnixSeconds> at = {};  // see View
  bool is_from_site = false;           // see View
};

// A dismissal as stored in SQLite.
struct DismissalRecord {
  Dismissal dismissal;
  UnixSeconds at;
};

struct Follow {
  ReaderId reader;
  AuthorId author;
  UnixSeconds at;
};

struct InteractionRecord {  // newest time of each item and kind
  ItemId item;
  Interaction kind = Interaction::kLike;
  UnixSeconds at;
};

using Fingerprints = std::shared_ptr<const std::unordered_set<std::uint64_t>>;  // see core/base/fingerprint.h

// Everything a recommendation needs to know about a reader.
struct ReaderState {
  std::vector<ViewedItem> topic_views;  // newest first, distinct, at most history.size
  std::vector<ViewedItem> reply_views;  // likewise
  // Newest first, at most interactions.max_kept, including long reads (kView).
  std::vector<InteractionRecord> interactions;
  Fingerprints archived;               // items of older interactions other than long reads; null: none
  std::vector<ViewedItem> dismissals;  // not interested, within feedback.ttl; newest first
};

class ReaderStore {
 public:
  virtual ~ReaderStore() = default;

  // Makes the item the newest of the reader's history; an earlier view of it moves up. Visible to
  // the next read() on any worker. Errors of all methods: Redis' own.
  virtual Task<Result<void>> record_view(const View& view) = 0;
  virtual Task<Result<std::vector<ViewedItem>>> views(const ReaderId& reader, ViewKind kind) = 0;
  // Clears views up to `until`; nullopt: all. Views recorded concurrently stay. 2 RTT, 3 in a
  // cluster.
  virtual Task<Result<void>> clear_views(const ReaderId& reader, ViewKind kind,
                                         std::optional<UnixSeconds> until) = 0;
  // Removes the item from the history, unless it was viewed after `at` (nullopt: now). Views of it
  // from before then that are still in a spool are dropped later.
  virtual Task<Result<void>> remove_view(const ReaderId& reader, ViewKind kind, const ItemId& item,
                                         std::optional<UnixSeconds> at) = 0;

  // Returns one result per event, in order. An error of one event (kUnavailable "stream_full", …)
  // does not affect the others. Fails as a whole if Redis did not answer. 2 RTT for all events
  // together.
  virtual Task<Result<std::vector<Result<void>>>> record_interactions(
      const std::vector<ReaderEvent>& events) = 0;
  // Excludes the item for feedback.ttl; repeating it renews the exclusion, undo_dismissal() reverts
  // it. 2 RTT, up to 5 for a dismissal with a time. Further errors: kUnavailable "stream_full".
  virtual Task<Result<void>> dismiss(const Dismissal& dismissal) = 0;
  virtual Task<Result<void>> undo_dismissal(const ReaderId& reader, const ItemId& item,
                                            std::optional<UnixSeconds> at) = 0;

  // Includes everything acknowledged before the call; concurrent writes may or may not be visible.
  virtual Task<Result<ReaderState>> read(const ReaderId& reader) = 0;

  // Items that the reader dismissed within feedback.ttl.
  virtual Task<Result<std::unordered_set<ItemId>>> dismissed_items(const ReaderId& reader) = 0;

  // For when Redis is unavailable: writes to the spool, which survives this process. The event is
  // applied once when Redis answers again. No round trip. Errors: kUnavailable "spool_full".
  virtual Result<void> spool_history_view(const View& view) = 0;
  virtual Result<void> spool_interaction(const ReaderEvent& event) = 0;
  virtual Result<void> spool_dismissal(const Dismissal& dismissal) = 0;
  virtual Result<void> spool_undo_dismissal(const ReaderId& reader, const ItemId& item) = 0;
  virtual Result<void> spool_clear_views(const ReaderId& reader, ViewKind kind) = 0;
  virtual Result<void> spool_remove_view(const ReaderId& reader, ViewKind kind, const ItemId& item) = 0;
};

}  // namespace freshet::readers
