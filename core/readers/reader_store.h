// ReaderStore on Redis: what readers looked at, what they did, and what they do not want.
// A script touches one reader's keys. What the recorder is told of has its effect first and is told
// then: who is killed between the two, or gets no reply, does it again, and an event is remembered
// last. A full stream refuses before the first write.
//
// Bytes of a reader's three view keys by MEMORY USAGE (Redis 7.0, ids of 8 bytes): 10 topics 496,
// with as many replies 920; 128 topics 3,680, with as many replies 7,288. "the memory of a history
// stays …" in tests/readers/reader_store_test.cpp prints and bounds them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/config/settings.h"
#include "core/readers/ports.h"
#include "core/redis/write_queue.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::readers {

class RedisReaderStore final : public ReaderStore {
 public:
  using NewEventId = std::function<std::string()>;  // an id that nobody else makes
  using OptionalTime = std::optional<UnixSeconds>;          // nullopt: now, by Redis' clock

  // `redis` and `deferred` must outlive this.
  RedisReaderStore(redis::Redis& redis, redis::WriteQueue& deferred, const Settings& settings, redis::Keys keys,
                   NewEventId new_event_id);

  // Errors also: kNotFound "unknown_item" (reject; 1 RTT more).
  Task<Result<void>> record_view(const View& view) override;
  Task<Result<std::vector<ViewedItem>>> views(const ReaderId& reader, ViewKind kind) override;
  Task<Result<void>> clear_views(const ReaderId& reader, ViewKind kind, OptionalTime until) override;
  Task<Result<void>> merge_views(const ReaderId& from, const ReaderId& to) override;

  // Errors of one event: kUnavailable "stream_full", kNotFound "unknown_item" (items.unknown =
  // reject).
  Task<Result<std::vector<Result<void>>>> record_interactions(const std::vector<ReaderEvent>& events) override;
  // Errors as those of an event.
  Task<Result<void>> dismiss(const Dismissal& dismissal) override;
  Task<Result<void>> undo_dismissal(const ReaderId& reader, const ItemId& item, OptionalTime at) override;

  Task<Result<ReaderState>> read(const ReaderId& reader) override;

  // What is applied later carries the time it has now, and never replaces what is of a later time.
  // Behind the reply nobody asks whether the item was put: who counted its view has.
  void record_view_async(const View& view) override;
  Result<void> spool_history_view(const View& view) override;
  Result<void> spool_interaction(const ReaderEvent& event) override;
  Result<void> spool_dismissal(const Dismissal& dismissal) override;
  Result<void> spool_undo_dismissal(const ReaderId& reader, const ItemId& item) override;
  Result<void> spool_clear_views(const ReaderId& reader, ViewKind kind) override;

 private:
  // Runs commands of which the last answers for all. 1 RTT.
  Task<Result<void>> run_for_last_reply(const redis::Pipeline& commands);

  // What a reader did, or does not want.
  struct ReaderWrite {
    std::string_view reader, item, event;
    OptionalTime at;
    std::string_view letter;  // of the kind; "": it is a dismissal
    std::string_view reason = {};
  };
  // 2 RTT. An answer for each.
  Task<Result<std::vector<Result<void>>>> apply_writes(const std::vector<ReaderWrite>& writes);
  void append_write(redis::Pipeline& effect, redis::Pipeline& entry, const ReaderWrite& write,
                     UnixSeconds at) const;
  // Remembers for a day what was applied. Ten thousand of a reader; beyond them the oldest can
  // count twice.
  void append_applied_event(redis::Pipeline& out, std::string_view reader, std::string_view event,
                     UnixSeconds at) const;

  void append_item_check(redis::Pipeline& out, std::string_view item) const;
  static Result<void> require_item(const redis::Reply& known);
  // `joins`: it comes from another reader's history, which runs out after so long.
  void append_view(redis::Pipeline& out, const View& view, std::optional<seconds> merged_ttl = {}) const;
  void append_history_read(redis::Pipeline& out, const ReaderId& reader, ViewKind kind) const;
  void append_history_removal(redis::Pipeline& out, const ReaderId& reader, ViewKind kind, const redis::Reply& list,
                     const redis::Reply& times, UnixSeconds until, UnixSeconds cleared) const;

  redis::Redis& redis_;
  redis::WriteQueue& deferred_;
  const HistorySettings history_;
  const InteractionSettings interactions_;
  const FeedbackSettings feedback_;
  const redis::Keys keys_;
  const std::int64_t stream_max_;  // of one stream
  const bool reject_unknown_;
  const NewEventId new_event_id_;
};

// The member of user:interactions:{reader}, "{letter}:{item}", as a kind and an item; nullopt when
// it is none.
struct InteractionMember {
  Interaction kind;
  std::string_view item;  // a view into the member
};
std::optional<InteractionMember> interaction_member(std::string_view member);
std::string interaction_member(Interaction kind, std::string_view item);

}  // namespace freshet::readers
