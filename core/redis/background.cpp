#include "core/redis/background.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/log.h"

namespace freshet::redis {

struct BackgroundWriter::SpooledEvent {
  std::string event;
  milliseconds age;
  std::uint64_t position;
};

// Entries of a spool that are applied together.
struct BackgroundWriter::ReplayBatch {
  std::vector<SpooledEvent> events;
  std::uint64_t next = 0;
};

BackgroundWriter::BackgroundWriter(EventLoop& loop, std::unique_ptr<RedisClient> redis,
                                   BackgroundOptions options)
    : redis_(std::move(redis)), options_(std::move(options)), scan_timer_(loop), drain_timer_(loop) {}

void BackgroundWriter::start() {
  redis_->on_ready_changed([this](bool ready) {
    if (ready)
      wake();
    else
      spool_queue();
  });
  redis_->connect();
  schedule_scan();
}

bool BackgroundWriter::post(Pipeline commands, std::vector<SpoolRecord> events, OnReplies on_replies) {
  if (!redis_->ready() || queued_commands_ + commands.size() > options_.queue_commands)
    return !events.empty() && spool_or_drop(events);
  queued_commands_ += commands.size();
  queue_.push_back({std::move(commands), std::move(events), std::move(on_replies), Clock::now()});
  wake();
  return true;
}

Result<void> BackgroundWriter::spool(const SpoolRecord& event) {
  if (try_spool(event)) return {};
  return fail(ErrorCode::kUnavailable, "spool_full", {}, "the spool is full");
}

bool BackgroundWriter::try_spool(const SpoolRecord& event) {
  const Result<void> written = append_to_spool(event);
  if (!written) {
    if (unspooled_events_ == 0) log::error("spool_write_failing", {{"error", written.error().detail}});
    ++unspooled_events_;
    last_spool_failure_ = Clock::now();
  } else {
    if (has_spool_recovered()) report_spool_recovery();
    wake();
  }
  return written.has_value();
}

// A nearly full disk accepts some appends and refuses others, so the failure is considered over
// only after scan_interval without one.
bool BackgroundWriter::has_spool_recovered() const {
  return unspooled_events_ > 0 && Clock::now() - last_spool_failure_ >= options_.scan_interval;
}

void BackgroundWriter::report_spool_recovery() {
  log::notice("spool_write_recovered", {{"events", std::to_string(unspooled_events_)}});
  unspooled_events_ = 0;
}

Result<void> BackgroundWriter::append_to_spool(const SpoolRecord& event) {
  if (!spool_) {
    std::error_code ignored;  // open() reports the error
    std::filesystem::create_directories(options_.spool_directory, ignored);
    const auto path = options_.spool_directory / (std::to_string(getpid()) + std::string(kSpoolSuffix));
    auto opened = Spool::open(path, options_.spool_bytes);
    // Another worker may have the file open, as workers do while looking for spools of dead
    // processes: retry once.
    if (!opened && opened.error().code == ErrorCode::kConflict)
      opened = Spool::open(path, options_.spool_bytes);
    if (!opened) return tl::unexpected(opened.error());
    spool_ = std::move(*opened);
  }
  if (!spool_->append(event.bytes()))
    return fail(ErrorCode::kUnavailable, "spool_full", {},
                spool_->path().string() + ": the disk is full or spool.max_bytes is reached");
  ++counters_.spooled;
  return {};
}

milliseconds BackgroundWriter::oldest_age() const {
  milliseconds oldest{0};
  const auto waiting = sending_since_   ? sending_since_
                       : queue_.empty() ? std::nullopt
                                        : std::optional(queue_.front().enqueued_at);
  if (waiting) oldest = std::chrono::duration_cast<milliseconds>(Clock::now() - *waiting);
  for (const Spool* spool : {spool_.get(), orphan_.get()})
    if (spool) oldest = std::max(oldest, spool->age());
  return oldest;
}

// --- pump: one batch at a time, the queue before the spools

void BackgroundWriter::wake() {
  if (pumping_ || !redis_->ready()) return;
  pumping_ = true;
  spawn(pump(), [this](std::exception_ptr) {
    pumping_ = false;
    if (can_finish_drain()) finish_drain();
  });
}

// GCC 12 miscompiles co_await inside conditions, so each await is a statement of its own.
Task<void> BackgroundWriter::pump() {
  bool keep_going = true;
  while (keep_going && redis_->ready()) {
    if (!queue_.empty()) {
      keep_going = co_await send_queue();
    } else if (may_replay() && spool_ && !spool_->empty() && !(orphan_ && orphan_is_next_)) {
      keep_going = co_await replay(*spool_);
      orphan_is_next_ = !keep_going;
    } else if (may_replay() && orphan_) {
      orphan_is_next_ = false;
      keep_going = co_await replay(*orphan_);
      retire_orphan();
    } else {
      keep_going = false;
    }
  }
}

void BackgroundWriter::retire_orphan() {
  if (!orphan_->empty()) return;
  orphan_->unlink();
  orphan_.reset();
  adopt_orphan();
}

Task<bool> BackgroundWriter::send_queue() {
  Pipeline batch;
  std::vector<QueuedWrite> sent;
  sending_since_ = queue_.front().enqueued_at;
  while (!queue_.empty() && batch.size() < kBatchCommands) {
    QueuedWrite& next = queue_.front();
    batch.append(next.commands);
    queued_commands_ -= next.commands.size();
    sent.push_back(std::move(next));
    queue_.pop_front();
  }
  const Result<Replies> replies = co_await redis_->run(batch);
  sending_since_.reset();
  std::size_t at = 0;
  for (const QueuedWrite& each : sent) {
    if (replies) {
      complete(each, std::span(*replies).subspan(at, each.commands.size()));
    } else {  // outcome unknown: repeat it from the spool
      spool_or_drop(each.events);
      if (each.on_replies) each.on_replies({});
    }
    at += each.commands.size();
  }
  if (!replies) spool_queue();
  co_return replies.has_value();
}

// Queued writes would otherwise be sent however long Redis was unavailable, and bring back readers
// who were erased meanwhile; a replay drops those.
void BackgroundWriter::spool_queue() {
  queued_commands_ = 0;
  for (const QueuedWrite& write : std::exchange(queue_, {})) {
    spool_or_drop(write.events);
    if (write.on_replies) write.on_replies({});
  }
}

void BackgroundWriter::complete(const QueuedWrite& sent, std::span<const Reply> replies) {
  if (sent.on_replies) sent.on_replies(replies);
  bool unavailable = false;
  for (const Reply& each : replies) {
    if (!each.is_error()) {
      ++counters_.accepted;
    } else if (is_unavailable(classify(each.error()))) {
      unavailable = true;
    } else {
      log::warning("background_command_rejected", {{"error", std::string(each.error())}});
      ++counters_.dropped;
    }
  }
  if (!unavailable) return;
  replay_refused_at_ = Clock::now();
  spool_or_drop(sent.events);
}

// Returns false if the spool did not take all events.
bool BackgroundWriter::spool_or_drop(std::span<const SpoolRecord> events) {
  const auto dropped =
      std::ranges::count_if(events, [this](const SpoolRecord& each) { return !try_spool(each); });
  counters_.dropped += static_cast<std::uint64_t>(dropped);
  return dropped == 0;
}

// Torn entries are erased at once, so that each is counted once.
BackgroundWriter::ReplayBatch BackgroundWriter::next_replay_batch(Spool& spool) {
  ReplayBatch out;
  out.next = spool.begin();
  while (out.events.size() < replay_batch_size_) {
    const auto record = spool.at(out.next);
    if (!record) break;
    if (record->torn) {
      ++counters_.dropped;
      spool.erase(out.next);
    } else if (!record->erased) {
      out.events.push_back({std::string(record->payload), record->age, out.next});
    }
    out.next = record->next;
  }
  return out;
}

Task<void> BackgroundWriter::apply_one(const std::vector<std::string_view>& fields, milliseconds age,
                                       Result<void>& outcome) {
  if (fields.empty()) {
    outcome = malformed_event();
    co_return;
  }
  if (options_.max_age.count() > 0 && age > options_.max_age) {
    outcome = fail(ErrorCode::kInvalid, "too_old");
    co_return;
  }
  if (options_.is_erased) {
    const Result<bool> is_erased = co_await options_.is_erased(fields, age);
    if (!is_erased)
      outcome = tl::unexpected(is_erased.error());
    else if (*is_erased)
      outcome = fail(ErrorCode::kInvalid, "erased");
    if (!outcome) co_return;
  }
  outcome = co_await options_.apply(fields);
}

// Applies all concurrently: their commands leave in one write, in the order of the events.
Task<BackgroundWriter::Outcomes> BackgroundWriter::apply_all(const std::vector<SpooledEvent>& events) {
  Outcomes outcomes(events.size());
  std::vector<std::vector<std::string_view>> fields;
  fields.reserve(events.size());
  for (const SpooledEvent& each : events) fields.push_back(decode_fields(each.event));
  AsyncEvent<bool> all_done;
  std::size_t remaining = events.size();
  for (std::size_t i = 0; i < events.size(); ++i) {
    spawn(apply_one(fields[i], events[i].age, outcomes[i]), [&, i](std::exception_ptr thrown) {
      if (thrown) outcomes[i] = fail(ErrorCode::kInternal, "exception");
      if (--remaining == 0) all_done.fire(true);
    });
  }
  if (!events.empty()) co_await all_done.wait();
  co_return outcomes;
}

Task<bool> BackgroundWriter::replay(Spool& spool) {
  const ReplayBatch batch = next_replay_batch(spool);
  if (spool.is_damaged()) log::error("spool_damaged", {{"path", spool.path().string()}});
  const Outcomes outcomes = co_await apply_all(batch.events);
  const bool is_lost = std::ranges::any_of(outcomes, [](const Result<void>& each) {
    return !each && each.error().code == ErrorCode::kUnknownOutcome;
  });
  const bool is_answered = std::ranges::any_of(
      outcomes, [](const Result<void>& each) { return each || each.error().reason != "redis_unavailable"; });
  if (is_lost)
    replay_batch_size_ = std::max<std::size_t>(1, replay_batch_size_ / 2);
  else if (is_answered)
    replay_batch_size_ = std::min(kMaxReplayBatch, 2 * replay_batch_size_);
  co_return complete(spool, batch, outcomes);
}

// Returns false if events must be applied again later; only those stay in the spool.
bool BackgroundWriter::complete(Spool& spool, const ReplayBatch& batch, const Outcomes& outcomes) {
  const Error* postponed = nullptr;
  std::uint64_t remaining = batch.next;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Result<void>& each = outcomes[i];
    if (!each && is_unavailable(each.error())) {
      if (!postponed) {
        postponed = &each.error();
        remaining = batch.events[i].position;
      }
      continue;
    }
    if (postponed) spool.erase(batch.events[i].position);
    if (each) {
      ++counters_.replayed;
      continue;
    }
    ++counters_.dropped;
    log::warning("spooled_event_rejected",
                 {{"error", std::string(each.error().reason)}, {"detail", each.error().detail}});
  }
  spool.pop_to(remaining);
  if (postponed) {
    replay_refused_at_ = Clock::now();
    // Do not log every attempt: an event may be refused for days.
    if (!is_postponement_logged_)
      log::warning("spool_replay_postponed",
                   {{"error", std::string(postponed->reason)}, {"detail", postponed->detail}});
  }
  is_postponement_logged_ = postponed != nullptr;
  return !postponed;
}

void BackgroundWriter::schedule_scan() {
  scan_timer_.after(options_.scan_interval, [this] {
    if (!orphan_) adopt_orphan();
    if (redis_->ready() && has_spool_recovered()) report_spool_recovery();
    wake();
    schedule_scan();
  });
}

void BackgroundWriter::adopt_orphan() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.spool_directory, error)) {
    if (entry.path().extension() != kSpoolSuffix || (spool_ && entry.path() == spool_->path())) continue;
    auto opened = Spool::open(entry.path(), options_.spool_bytes);
    if (!opened) continue;  // its owner is alive, or another worker was first
    if ((*opened)->empty()) {
      (*opened)->unlink();
      continue;
    }
    log::notice("spool_adopted",
                {{"path", entry.path().string()}, {"bytes", std::to_string((*opened)->bytes())}});
    orphan_ = std::move(*opened);
    return;
  }
}

void BackgroundWriter::drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done) {
  draining_ = true;
  on_drained_ = std::move(done);
  if (can_finish_drain()) return finish_drain();
  drain_timer_.at(deadline, [this] { finish_drain(); });
}

void BackgroundWriter::finish_drain() {
  if (!on_drained_) return;
  drain_timer_.cancel();
  scan_timer_.cancel();
  spool_queue();
  if (unspooled_events_ > 0) report_spool_recovery();
  std::exchange(on_drained_, nullptr)();
}

}  // namespace freshet::redis
