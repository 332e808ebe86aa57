// ReaderStore on Redis: reading history, interactions and dismissals. A script touches one reader's
// keys. For changes that go to the recorder, the effect on the reader's keys comes first, then the
// stream entry, then the event id. If the worker dies in between or the reply is lost, repeating
// the call completes the rest. A full stream rejects the change before the first write. Nothing of
// an anonymous reader goes to the recorder.
//
// Bytes of a reader's three view keys by MEMORY USAGE (Redis 7.0, ids of 8 bytes): 10 topics 496,
// with as many replies 920; 128 topics 3,680, with as many replies 7,288.
// tests/readers/reader_store_test.cpp prints and bounds these numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/config/settings.h"
#include "core/readers/ports.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/redis/write_queue.h"

namespace freshet::readers {

class RedisReaderStore final : public ReaderStore {
 public:
  using NewEventId = std::function<std::string()>;  // returns a globally unique id
  using OptionalTime = std::optional<UnixSeconds>;  // nullopt: now, by Redis' clock

  // `redis` and `write_queue` must outlive this.
  RedisReaderStore(redis::Redis& redis, redis::WriteQueue& write_queue, const Settings& settings,
                   redis::Keys keys, NewEventId new_event_id);

  // Further errors: kNotFound "unknown_item" (only with items.unknown = reject, which takes 1 RTT
  // more), also for a hidden or embargoed item unless View::is_from_site.
  Task<Result<void>> record_view(const View& view) override;
  Task<Result<std::vector<ViewedItem>>> views(const ReaderId& reader, ViewKind kind) override;
  Task<Result<void>> clear_views(const ReaderId& reader, ViewKind kind, OptionalTime until) override;
  Task<Result<void>> remove_view(const ReaderId& reader, ViewKind kind, const ItemId& item,
                                 OptionalTime at) override;
  // Merges both histories of `from` into those of `to`: `to` keeps the newest views of both by
  // time, `from` becomes empty. Returns the number of views of `from`. Merging a reader into itself
  // changes nothing. 3 RTT, not atomic: repeat the call after an error. Views that `from` records
  // concurrently stay there.
  Task<Result<std::int64_t>> merge_views(const ReaderId& from, const ReaderId& to);

  // Errors of an event: kUnavailable "stream_full"; kNotFound "unknown_item" (items.unknown =
  // reject).
  Task<Result<std::vector<Result<void>>>> record_interactions(
      const std::vector<ReaderEvent>& events) override;
  // Errors: those of record_interactions().
  Task<Result<void>> dismiss(const Dismissal& dismissal) override;
  Task<Result<void>> undo_dismissal(const ReaderId& reader, const ItemId& item, OptionalTime at) override;

  Task<Result<ReaderState>> read(const ReaderId& reader) override;
  Task<Result<std::unordered_set<ItemId>>> dismissed_items(const ReaderId& reader) override;

  // Called for each item that a reader viewed, interacted with or dismissed, once that is recorded
  // or, if it is asynchronous, when it is sent. `at`: nullopt: now. `is_noted`: the reader's feed
  // knows that its buffer may contain the item (feed_external.lua).
  using UseObserver =
      std::function<void(const ReaderId& reader, const ItemId& item, OptionalTime at, bool is_noted)>;
  void on_use(UseObserver observer) { use_observer_ = std::move(observer); }

  // Spooled writes carry the current time and never replace anything newer.
  Result<void> spool_history_view(const View& view) override;
  Result<void> spool_interaction(const ReaderEvent& event) override;
  Result<void> spool_dismissal(const Dismissal& dismissal) override;
  Result<void> spool_undo_dismissal(const ReaderId& reader, const ItemId& item) override;
  Result<void> spool_clear_views(const ReaderId& reader, ViewKind kind) override;
  Result<void> spool_remove_view(const ReaderId& reader, ViewKind kind, const ItemId& item) override;

 private:
  void observe(const ReaderId& reader, const ItemId& item, OptionalTime at, bool is_noted) const {
    if (use_observer_) use_observer_(reader, item, at, is_noted);
  }
  // Runs commands whose last reply is the result. 1 RTT.
  Task<Result<void>> run_for_last_reply(const redis::Pipeline& commands);

  // An interaction or a dismissal.
  struct ReaderWrite {
    std::string_view reader, item, event;
    OptionalTime at;
    std::string_view letter;  // of the interaction; empty for a dismissal
    std::string_view reason = {};
    bool is_from_site = true;
  };
  // Returns one result per write. 2 RTT.
  Task<Result<std::vector<Result<void>>>> apply_writes(const std::vector<ReaderWrite>& writes);
  void append_write(redis::Pipeline& effect, redis::Pipeline& entry, const ReaderWrite& write,
                    UnixSeconds at) const;
  // Stores an applied event id for a day. At most kMaxEvents per reader; beyond that the oldest may
  // be applied twice.
  void append_applied_event(redis::Pipeline& out, std::string_view reader, std::string_view event,
                            UnixSeconds at) const;

  seconds history_ttl(const ReaderId& reader) const {
    return readers_.bounded_ttl(reader.view(), history_.ttl);
  }
  void append_item_check(redis::Pipeline& out, std::string_view item) const;
  // `item`: the reply to append_item_check().
  static Result<void> require_item(const redis::Reply& item, bool is_from_site);
  // `merged_ttl`: set if the view comes from another reader's history; the remaining time to live
  // of that.
  void append_view(redis::Pipeline& out, const View& view, std::optional<seconds> merged_ttl = {}) const;
  void append_history_read(redis::Pipeline& out, const ReaderId& reader, ViewKind kind) const;
  void append_history_removal(redis::Pipeline& out, const ReaderId& reader, ViewKind kind,
                              const redis::Reply& list, const redis::Reply& times, UnixSeconds until,
                              UnixSeconds cleared) const;

  redis::Redis& redis_;
  redis::WriteQueue& write_queue_;
  const ReaderSettings readers_;
  const HistorySettings history_;
  const InteractionSettings interactions_;
  const FeedbackSettings feedback_;
  const redis::Keys keys_;
  const std::int64_t stream_max_;  // per stream
  const bool reject_unknown_;
  const NewEventId new_event_id_;
  UseObserver use_observer_;
};

// A member of user:interactions:{reader}, "{letter}:{item}", split into kind and item; nullopt if
// malformed.
struct InteractionMember {
  Interaction kind;
  std::string_view item;  // a view into the member
};
std::optional<InteractionMember> interaction_member(std::string_view member);
std::string interaction_member(Interaction kind, std::string_view item);

}  // namespace freshet::readers
