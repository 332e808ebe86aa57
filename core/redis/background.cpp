#include "core/redis/background.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/log.h"

namespace freshet::redis {

namespace {

constexpr std::string_view kSpoolSuffix = ".spool";

// The SHA-1 that an EVALSHA command in RESP names, or empty.
std::string_view script_of(std::string_view command) {
  constexpr std::string_view kHead = "\r\n$7\r\nEVALSHA\r\n$40\r\n";
  const std::size_t head = command.find(kHead);
  if (head == std::string_view::npos || head > 8) return {};
  return command.substr(head + kHead.size(), 40);
}

bool knows(std::span<const Script> scripts, std::string_view sha) {
  return std::ranges::count(scripts, sha, &Script::sha1) > 0;
}

}  // namespace

// What is sent of a spool at once.
struct BackgroundWriter::Portion {
  Pipeline batch;  // the loads, then the commands
  std::size_t loads = 0;
  std::vector<std::string> scripts;  // sources of the script records among them
  std::size_t torn = 0;
  std::uint64_t next = 0;
};

BackgroundWriter::BackgroundWriter(EventLoop& loop, LinkOptions link, std::span<const Script> scripts,
                                   BackgroundOptions options)
    : connection_(loop, std::move(link), scripts),
      scripts_(scripts),
      options_(std::move(options)),
      scan_timer_(loop),
      drain_timer_(loop) {}

void BackgroundWriter::start() {
  connection_.on_ready_changed([this](bool ready) {
    if (ready) wake();
  });
  connection_.connect();
  schedule_scan();
}

bool BackgroundWriter::post(Pipeline pipeline) {
  if (!connection_.ready() || queued_commands_ + pipeline.size() > options_.queue_commands) {
    if (to_spool(pipeline)) return true;
    counters_.dropped += pipeline.size();
    return false;
  }
  queued_commands_ += pipeline.size();
  queue_.push_back({std::move(pipeline), Clock::now()});
  wake();
  return true;
}

Result<void> BackgroundWriter::spool(Pipeline pipeline) {
  if (to_spool(pipeline)) return {};
  return fail(ErrorCode::kUnavailable, "spool_full", {}, "the spool has no room");
}

bool BackgroundWriter::to_spool(const Pipeline& pipeline) {
  const Result<void> written = write_spool(pipeline);
  if (!written) {
    if (refused_commands_ == 0) log::error("spool_refuses", {{"error", written.error().detail}});
    refused_commands_ += pipeline.size();
    last_refusal_ = Clock::now();
  } else {
    if (may_end_refusals()) end_refusals();
    wake();
  }
  return written.has_value();
}

// A disk that is nearly full takes some and refuses others: the end is believed after a while without
// refusals.
bool BackgroundWriter::may_end_refusals() const {
  return refused_commands_ > 0 && Clock::now() - last_refusal_ >= options_.scan_interval;
}

void BackgroundWriter::end_refusals() {
  log::notice("spool_refused", {{"commands", std::to_string(refused_commands_)}});
  refused_commands_ = 0;
}

Result<void> BackgroundWriter::write_spool(const Pipeline& pipeline) {
  if (!spool_) {
    std::error_code ignored;  // open() reports what is wrong
    std::filesystem::create_directories(options_.spool_directory, ignored);
    const auto path = options_.spool_directory / (std::to_string(getpid()) + std::string(kSpoolSuffix));
    auto opened = Spool::open(path, options_.spool_bytes);
    // Another worker may be looking into the file at this very moment, as it does with those of dead
    // processes.
    if (!opened && opened.error().code == ErrorCode::kConflict)
      opened = Spool::open(path, options_.spool_bytes);
    if (!opened) return tl::unexpected(opened.error());
    spool_ = std::move(*opened);
    collect_scripts(*spool_);  // another process of this number may have left it
  }
  if (spool_->empty()) scripts_in_spool_.clear();
  for (std::size_t i = 0; i < pipeline.size(); ++i) {
    if (!put_script(pipeline.at(i)) || !spool_->append(Spool::Kind::kCommand, pipeline.at(i)))
      return fail(ErrorCode::kUnavailable, "spool_full", {},
                  spool_->path().string() + ": the disk is full, or spool.max_bytes reached");
    ++counters_.spooled;
  }
  return {};
}

// The file carries the scripts its commands name, so that a later version of the program, with other scripts,
// can replay it.
bool BackgroundWriter::put_script(std::string_view command) {
  const std::string_view sha = script_of(command);
  if (sha.empty() || scripts_in_spool_.contains(sha)) return true;
  const auto script =
      std::find_if(scripts_.begin(), scripts_.end(), [&](const Script& s) { return s.sha1 == sha; });
  if (script == scripts_.end()) return true;
  if (!spool_->append(Spool::Kind::kScript, script->source)) return false;
  scripts_in_spool_.emplace(sha);
  return true;
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
  if (pumping_ || !connection_.ready()) return;
  pumping_ = true;
  spawn(pump(), [this](std::exception_ptr) {
    pumping_ = false;
    if (drained_ && queue_.empty()) finish_drain();
  });
}

// GCC 12 miscompiles co_await inside a condition: every await stands in a statement of its own.
Task<void> BackgroundWriter::pump() {
  bool going_on = true;
  while (going_on && connection_.ready()) {
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
  if (!spool_ || spool_->empty()) carried_.clear();
  adopt();
}

Task<bool> BackgroundWriter::send_queue() {
  Pipeline batch;
  sending_since_ = queue_.front().since;
  while (!queue_.empty() && batch.size() < kBatchCommands) {
    const Pipeline& next = queue_.front().commands;
    for (std::size_t i = 0; i < next.size(); ++i) batch.raw(next.at(i));
    queued_commands_ -= next.size();
    queue_.pop_front();
  }
  const Result<Replies> replies = co_await connection_.run(batch);
  sending_since_.reset();
  if (!replies) {  // nothing is known of it: it is repeated from the spool
    if (!to_spool(batch)) counters_.dropped += batch.size();
    co_return false;
  }
  for (std::size_t i = 0; i < replies->size(); ++i) {
    if ((*replies)[i].is_error())
      keep_or_drop(batch.at(i), (*replies)[i].error());
    else
      ++counters_.done;
  }
  co_return true;
}

// What waiting cures waits in the spool.
void BackgroundWriter::keep_or_drop(std::string_view command, std::string_view error) {
  if (classify(error).code == ErrorCode::kUnavailable) {
    refused_ = Clock::now();
    Pipeline one;
    if (to_spool(one.raw(command))) return;
  } else {
    log::warning("background_command_refused", {{"error", std::string(error)}});
  }
  ++counters_.dropped;
}

// O(bytes): a file's scripts may stand behind the commands that need them.
void BackgroundWriter::collect_scripts(Spool& spool) {
  std::uint64_t position = spool.begin();
  while (const auto record = spool.at(position)) {
    if (record->kind == Spool::Kind::kScript) carried_.emplace(record->payload);
    position = record->next;
  }
}

BackgroundWriter::Portion BackgroundWriter::next_portion(Spool& spool) const {
  Portion out;
  Pipeline commands;
  bool others = false;  // commands of scripts that are not ours
  out.next = spool.begin();
  while (commands.size() < portion_commands_) {
    const auto record = spool.at(out.next);
    if (!record) break;
    out.next = record->next;
    if (record->kind == Spool::Kind::kTorn) ++out.torn;
    if (record->kind == Spool::Kind::kScript) out.scripts.emplace_back(record->payload);
    if (record->kind != Spool::Kind::kCommand) continue;
    const std::string_view sha = script_of(record->payload);
    others |= !sha.empty() && !knows(scripts_, sha);
    commands.raw(record->payload);
  }
  if (others) {
    for (const std::string& source : carried_) out.batch.add("SCRIPT", "LOAD", source);
  }
  out.loads = out.batch.size();
  for (std::size_t i = 0; i < commands.size(); ++i) out.batch.raw(commands.at(i));
  return out;
}

Task<bool> BackgroundWriter::replay(Spool& spool) {
  Portion portion = next_portion(spool);
  if (spool.damaged()) log::error("spool_damaged", {{"path", spool.path().string()}});
  Result<Replies> replies{Replies()};
  if (!portion.batch.empty()) replies = co_await connection_.run(portion.batch);
  if (replies && settle(spool, portion, *replies)) {
    portion_commands_ = std::min(kBatchCommands, 2 * portion_commands_);
    co_return true;
  }
  const bool was_sent = replies || replies.error().code == ErrorCode::kUnknownOutcome;
  if (was_sent) portion_commands_ = std::max<std::size_t>(1, portion_commands_ / 2);
  co_return false;
}

// False: later, all of it; repeating is harmless.
bool BackgroundWriter::settle(Spool& spool, const Portion& portion, const Replies& replies) {
  std::set<std::string_view> loaded;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const bool is_load = i < portion.loads;
    if (!replies[i].is_error()) {
      if (is_load) loaded.insert(replies[i].string().value_or(""));
      continue;
    }
    const std::string_view error = replies[i].error();
    const std::string_view sha = script_of(portion.batch.at(i));
    const bool script_is_nowhere =
        error.starts_with("NOSCRIPT") && !knows(scripts_, sha) && !loaded.contains(sha);
    if (!script_is_nowhere && classify(error).code == ErrorCode::kUnavailable) {
      refused_ = Clock::now();
      // Not each time: for the last it may be refused for days.
      if (portion_commands_ > 1) log::warning("spool_waits", {{"error", std::string(error)}});
      return false;
    }
    refused += is_load ? 0 : 1;
    log::warning(is_load ? "spooled_script_refused" : "spooled_command_refused",
                 {{"error", std::string(error)}, {"script", std::string(sha)}});
  }
  if (spool.at(portion.next)) {  // commands behind may name them
    for (const std::string& source : portion.scripts) {
      if (!spool.append(Spool::Kind::kScript, source)) scripts_in_spool_.clear();  // they come anew
    }
  }
  counters_.replayed += replies.size() - portion.loads - refused;
  counters_.dropped += refused + portion.torn;
  spool.pop_to(portion.next);
  return true;
}

// --- spools of dead processes

void BackgroundWriter::schedule_scan() {
  scan_timer_.after(options_.scan_interval, [this] {
    if (!orphan_) adopt();
    if (connection_.ready() && may_end_refusals()) end_refusals();
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
    collect_scripts(*orphan_);
    return;
  }
}

// --- stopping

void BackgroundWriter::drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done) {
  drained_ = std::move(done);
  if (queue_.empty() && !pumping_) return finish_drain();
  drain_timer_.at(deadline, [this] { finish_drain(); });
}

void BackgroundWriter::finish_drain() {
  if (!drained_) return;
  drain_timer_.cancel();
  scan_timer_.cancel();
  for (const Queued& left : queue_) {
    if (!to_spool(left.commands)) counters_.dropped += left.commands.size();
  }
  queue_.clear();
  queued_commands_ = 0;
  if (refused_commands_ > 0) end_refusals();
  std::exchange(drained_, nullptr)();
}

}  // namespace freshet::redis
