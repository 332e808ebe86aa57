#include "core/redis/background.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/log.h"

namespace freshet::redis {

struct BackgroundWriter::Waiting {
  std::string event;
  milliseconds age;
};

// What is taken of a spool at once.
struct BackgroundWriter::Portion {
  std::vector<Waiting> events;
  std::size_t torn = 0;
  std::uint64_t next = 0;
};

BackgroundWriter::BackgroundWriter(EventLoop& loop, std::unique_ptr<RedisClient> redis,
                                   BackgroundOptions options)
    : redis_(std::move(redis)), options_(std::move(options)), scan_timer_(loop), drain_timer_(loop) {}

void BackgroundWriter::start() {
  redis_->on_ready_changed([this](bool ready) {
    if (ready) wake();
  });
  redis_->connect();
  schedule_scan();
}

bool BackgroundWriter::post(Pipeline commands, StoredEvent event) {
  if (!redis_->ready() || queued_commands_ + commands.size() > options_.queue_commands) {
    if (event.empty()) return false;
    if (to_spool(event)) return true;
    ++counters_.dropped;
    return false;
  }
  queued_commands_ += commands.size();
  queue_.push_back({std::move(commands), std::move(event), Clock::now()});
  wake();
  return true;
}

Result<void> BackgroundWriter::spool(const StoredEvent& event) {
  if (to_spool(event)) return {};
  return fail(ErrorCode::kUnavailable, "spool_full", {}, "the spool has no room");
}

bool BackgroundWriter::to_spool(const StoredEvent& event) {
  const Result<void> written = write_spool(event);
  if (!written) {
    if (refused_events_ == 0) log::error("spool_refuses", {{"error", written.error().detail}});
    ++refused_events_;
    last_refusal_ = Clock::now();
  } else {
    if (may_end_refusals()) end_refusals();
    wake();
  }
  return written.has_value();
}

// A disk that is nearly full takes some and refuses others: the end is believed after a while
// without refusals.
bool BackgroundWriter::may_end_refusals() const {
  return refused_events_ > 0 && Clock::now() - last_refusal_ >= options_.scan_interval;
}

void BackgroundWriter::end_refusals() {
  log::notice("spool_refused", {{"events", std::to_string(refused_events_)}});
  refused_events_ = 0;
}

Result<void> BackgroundWriter::write_spool(const StoredEvent& event) {
  if (!spool_) {
    std::error_code ignored;  // open() reports what is wrong
    std::filesystem::create_directories(options_.spool_directory, ignored);
    const auto path = options_.spool_directory / (std::to_string(getpid()) + std::string(kSpoolSuffix));
    auto opened = Spool::open(path, options_.spool_bytes);
    // Another worker may be looking into the file at this very moment, as it does with those of
    // dead processes.
    if (!opened && opened.error().code == ErrorCode::kConflict)
      opened = Spool::open(path, options_.spool_bytes);
    if (!opened) return tl::unexpected(opened.error());
    spool_ = std::move(*opened);
  }
  if (!spool_->append(event.bytes()))
    return fail(ErrorCode::kUnavailable, "spool_full", {},
                spool_->path().string() + ": the disk is full, or spool.max_bytes reached");
  ++counters_.spooled;
  return {};
}

milliseconds BackgroundWriter::oldest_age() const {
  milliseconds oldest{0};
  const auto waiting = sending_since_   ? sending_since_
                       : queue_.empty() ? std::nullopt
                                        : std::optional(queue_.front().since);
  if (waiting) oldest = std::chrono::duration_cast<milliseconds>(Clock::now() - *waiting);
  for (const Spool* spool : {spool_.get(), orphan_.get()})
    if (spool) oldest = std::max(oldest, spool->age());
  return oldest;
}

// --- the pump: one batch at a time, queue before spool

void BackgroundWriter::wake() {
  if (pumping_ || !redis_->ready()) return;
  pumping_ = true;
  spawn(pump(), [this](std::exception_ptr) {
    pumping_ = false;
    if (nothing_to_wait_for()) finish_drain();
  });
}

// GCC 12 miscompiles co_await inside a condition: every await stands in a statement of its own.
Task<void> BackgroundWriter::pump() {
  bool going_on = true;
  while (going_on && redis_->ready()) {
    if (!queue_.empty()) {
      going_on = co_await send_queue();
    } else if (may_replay() && spool_ && !spool_->empty()) {
      going_on = co_await replay(*spool_);
    } else if (may_replay() && orphan_) {
      going_on = co_await replay(*orphan_);
      retire_orphan();
    } else {
      going_on = false;
    }
  }
}

void BackgroundWriter::retire_orphan() {
  if (!orphan_->empty()) return;
  orphan_->unlink();
  orphan_.reset();
  adopt();
}

Task<bool> BackgroundWriter::send_queue() {
  Pipeline batch;
  std::vector<Queued> sent;
  sending_since_ = queue_.front().since;
  while (!queue_.empty() && batch.size() < kBatchCommands) {
    Queued& next = queue_.front();
    batch.append(next.commands);
    queued_commands_ -= next.commands.size();
    sent.push_back(std::move(next));
    queue_.pop_front();
  }
  const Result<Replies> replies = co_await redis_->run(batch);
  sending_since_.reset();
  std::size_t at = 0;
  for (const Queued& each : sent) {
    if (replies)
      settle(each, std::span(*replies).subspan(at, each.commands.size()));
    else  // nothing is known of it: it is repeated from the spool
      keep_or_drop(each.event);
    at += each.commands.size();
  }
  co_return replies.has_value();
}

void BackgroundWriter::settle(const Queued& sent, std::span<const Reply> replies) {
  bool waits = false;
  for (const Reply& each : replies) {
    if (!each.is_error()) {
      ++counters_.done;
    } else if (is_unavailable(classify(each.error()))) {
      waits = true;
    } else {
      log::warning("background_command_refused", {{"error", std::string(each.error())}});
      ++counters_.dropped;
    }
  }
  if (!waits) return;
  refused_ = Clock::now();
  keep_or_drop(sent.event);
}

void BackgroundWriter::keep_or_drop(const StoredEvent& event) {
  if (!event.empty() && !to_spool(event)) ++counters_.dropped;
}

BackgroundWriter::Portion BackgroundWriter::next_portion(Spool& spool) const {
  Portion out;
  out.next = spool.begin();
  while (out.events.size() < portion_events_) {
    const auto record = spool.at(out.next);
    if (!record) break;
    out.next = record->next;
    if (record->torn)
      ++out.torn;
    else
      out.events.push_back({std::string(record->payload), record->age});
  }
  return out;
}

Task<void> BackgroundWriter::apply_one(const std::vector<std::string_view>& fields, milliseconds age,
                                       Result<void>& outcome) {
  if (fields.empty()) {
    outcome = not_an_event();
    co_return;
  }
  if (options_.max_age.count() > 0 && age > options_.max_age) {
    outcome = fail(ErrorCode::kInvalid, "too_old");
    co_return;
  }
  if (options_.is_void) {
    const Result<bool> is_void = co_await options_.is_void(fields, age);
    if (!is_void)
      outcome = tl::unexpected(is_void.error());
    else if (*is_void)
      outcome = fail(ErrorCode::kInvalid, "erased");
    if (!outcome) co_return;
  }
  outcome = co_await options_.apply(fields);
}

// All at once: their commands leave in one write, in the order of the events.
Task<BackgroundWriter::Outcomes> BackgroundWriter::apply_all(const std::vector<Waiting>& events) {
  Outcomes outcomes(events.size());
  std::vector<std::vector<std::string_view>> fields;
  fields.reserve(events.size());
  for (const Waiting& each : events) fields.push_back(fields_of(each.event));
  AsyncEvent<bool> all_done;
  std::size_t left = events.size();
  for (std::size_t i = 0; i < events.size(); ++i) {
    spawn(apply_one(fields[i], events[i].age, outcomes[i]), [&, i](std::exception_ptr thrown) {
      if (thrown) outcomes[i] = fail(ErrorCode::kInternal, "exception");
      if (--left == 0) all_done.fire(true);
    });
  }
  if (!events.empty()) co_await all_done.wait();
  co_return outcomes;
}

Task<bool> BackgroundWriter::replay(Spool& spool) {
  const Portion portion = next_portion(spool);
  if (spool.damaged()) log::error("spool_damaged", {{"path", spool.path().string()}});
  const Outcomes outcomes = co_await apply_all(portion.events);
  if (settle(spool, portion, outcomes)) {
    portion_events_ = std::min(kMostReplayed, 2 * portion_events_);
    co_return true;
  }
  portion_events_ = std::max<std::size_t>(1, portion_events_ / 2);
  co_return false;
}

// False: later, all of it; repeating is harmless.
bool BackgroundWriter::settle(Spool& spool, const Portion& portion, const Outcomes& outcomes) {
  for (const Result<void>& each : outcomes) {
    if (each || !is_unavailable(each.error())) continue;
    refused_ = Clock::now();
    // Not each time: for the last it may be refused for days.
    if (portion_events_ > 1)
      log::warning("spool_waits",
                   {{"error", std::string(each.error().reason)}, {"detail", each.error().detail}});
    return false;
  }
  for (const Result<void>& each : outcomes) {
    if (each) {
      ++counters_.replayed;
      continue;
    }
    ++counters_.dropped;
    log::warning("spooled_event_refused",
                 {{"error", std::string(each.error().reason)}, {"detail", each.error().detail}});
  }
  counters_.dropped += portion.torn;
  spool.pop_to(portion.next);
  return true;
}

// --- spools of dead processes

void BackgroundWriter::schedule_scan() {
  scan_timer_.after(options_.scan_interval, [this] {
    if (!orphan_) adopt();
    if (redis_->ready() && may_end_refusals()) end_refusals();
    wake();
    schedule_scan();
  });
}

void BackgroundWriter::adopt() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.spool_directory, error)) {
    if (entry.path().extension() != kSpoolSuffix || (spool_ && entry.path() == spool_->path())) continue;
    auto opened = Spool::open(entry.path(), options_.spool_bytes);
    if (!opened) continue;  // its owner lives, or another worker was first
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

// --- stopping

void BackgroundWriter::drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done) {
  drained_ = std::move(done);
  if (nothing_to_wait_for()) return finish_drain();
  drain_timer_.at(deadline, [this] { finish_drain(); });
}

void BackgroundWriter::finish_drain() {
  if (!drained_) return;
  drain_timer_.cancel();
  scan_timer_.cancel();
  for (const Queued& left : queue_) keep_or_drop(left.event);
  queue_.clear();
  queued_commands_ = 0;
  if (refused_events_ > 0) end_refusals();
  std::exchange(drained_, nullptr)();
}

}  // namespace freshet::redis
