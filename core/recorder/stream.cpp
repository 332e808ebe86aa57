#include "core/recorder/stream.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/items/item_store.h"
#include "core/recorder/consumer_groups.h"
#include "core/recorder/redis_timeout.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::recorder {
namespace {

using redis::Pipeline;
using redis::Reply;

// Fixed, so that a restarted recorder is the same consumer.
constexpr std::string_view kConsumer = "recorder";

std::pair<std::uint64_t, std::uint64_t> parse_entry_id(std::string_view entry) {
  const std::size_t dash = std::min(entry.find('-'), entry.size());
  const std::string_view sequence = dash < entry.size() ? entry.substr(dash + 1) : std::string_view();
  return {redis::parse_or_zero<std::uint64_t>(entry.substr(0, dash)),
          redis::parse_or_zero<std::uint64_t>(sequence)};
}

}  // namespace

bool precedes(std::string_view a, std::string_view b) { return parse_entry_id(a) < parse_entry_id(b); }

Streams::Streams(const Settings& settings, redis::Endpoint endpoint)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis),
      read_count_(keys_.per_partition(settings.recorder.batch_size)) {
  for (const redis::PartitionKeys& each : keys_.partitions()) {
    Stream one;
    one.key = each.stream();
    one.fence = each.fence();
    streams_.push_back(std::move(one));
  }
}

void Streams::restart() {
  for (Stream& each : streams_) {
    each.cursor = kFirstId;
    each.claimed = each.drained = false;
    each.trimmed_at.clear();
  }
}

bool Streams::has_claimed_all() const { return std::ranges::all_of(streams_, &Stream::claimed); }
bool Streams::is_drained() const { return std::ranges::all_of(streams_, &Stream::drained); }

bool Streams::is_delivered(const EntryId& entry) const {
  const Stream& stream = streams_[entry.stream];
  return has_claimed_all() && (stream.drained || !precedes(stream.delivered, entry.id)) &&
         (stream.pinned.empty() || precedes(entry.id, stream.pinned));
}

void Streams::pin(const std::vector<FanoutJob>& jobs) {
  for (Stream& each : streams_) each.pinned.clear();
  for (const FanoutJob& each : jobs) {
    std::string& pinned = streams_[each.entry.stream].pinned;
    if (pinned.empty()) pinned = each.entry.id;
  }
}

Result<EntryBatch> Streams::claim_pending() {
  Pipeline commands;
  for (const Stream& each : streams_) {
    if (each.claimed) continue;
    commands.add("XAUTOCLAIM", each.key, kConsumerGroup, kConsumer, 0, each.cursor, "COUNT", read_count_);
    commands.add("XINFO", "GROUPS", each.key);
  }
  FRESHET_TRY(replies, redis_.call_all(commands));
  EntryBatch out;
  std::size_t at = 0;
  for (unsigned number = 0; number < streams_.size(); ++number) {
    Stream& each = streams_[number];
    if (each.claimed) continue;
    const Reply &claimed = (*replies)[at], &groups = (*replies)[at + 1];
    at += 2;
    each.cursor = std::string(redis::string_at(claimed, 0));
    each.claimed = each.cursor == kFirstId;
    each.delivered = redis::field_value(groups[0], "last-delivered-id");  // there is only one group
    out.append(parse_batch(claimed[1], number));
  }
  return out;
}

Result<EntryBatch> Streams::read(ReadMode mode) {
  EntryBatch out;
  const auto until = std::chrono::steady_clock::now() + kBlockTime;
  for (;;) {
    FRESHET_TRY(found, read_once(mode, out));
    const bool blocked = mode == ReadMode::kNonBlocking || streams_.size() == 1;
    if (*found || blocked || std::chrono::steady_clock::now() + kPollInterval > until) return out;
    std::this_thread::sleep_for(kPollInterval);
  }
}

// Returns true if there were entries.
Result<bool> Streams::read_once(ReadMode mode, EntryBatch& into) {
  const bool blocks = mode == ReadMode::kBlocking && streams_.size() == 1;
  Pipeline commands;
  for (const Stream& each : streams_) {
    commands.command(blocks ? 11 : 9).arg("XREADGROUP").arg("GROUP").arg(kConsumerGroup).arg(kConsumer);
    commands.arg("COUNT").arg(read_count_);
    if (blocks) commands.arg("BLOCK").arg(kBlockTime.count());
    commands.arg("STREAMS").arg(each.key).arg(">");
  }
  FRESHET_TRY(replies, redis_.call_all(commands));
  for (unsigned number = 0; number < streams_.size(); ++number) {
    Stream& each = streams_[number];
    const Reply& read = (*replies)[number];
    each.drained = read.size() == 0;
    if (each.drained) continue;
    const Reply entries = read[0][1];
    each.delivered = redis::string_at(entries[entries.size() - 1], 0);
    into.append(parse_batch(entries, number));
  }
  return !is_drained();
}

// Skips a stream if nothing was read since the last trim and nothing is to be acknowledged.
Result<Backlog> Streams::acknowledge(const Lease& lease, const EntryBatch& batch, const Pipeline& followup) {
  std::vector<std::vector<std::string_view>> entries(streams_.size());
  for (const EntryId& each : batch.entries) entries[each.stream].push_back(each.id);
  Pipeline commands;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& each = streams_[i];
    if (entries[i].empty() && each.trimmed_at == each.delivered) continue;
    const auto [ms, sequence] = parse_entry_id(each.delivered);
    commands.script(scripts::kStreamAck).key(each.key).key(each.fence).arg(kConsumerGroup).arg(lease.token());
    commands.arg(std::to_string(ms) + "-" + std::to_string(sequence + 1));
    for (const std::string_view entry : entries[i]) commands.arg(entry);
  }
  for (std::size_t i = 0; i < followup.size(); ++i) commands.raw(followup.at(i));
  lease.append_renewal(commands);
  auto backlog = run_with_backlog(std::move(commands));
  if (!backlog) return backlog;
  for (Stream& each : streams_) each.trimmed_at = each.delivered;
  return backlog;
}

Result<Backlog> Streams::backlog() { return run_with_backlog({}); }

Result<Backlog> Streams::run_with_backlog(Pipeline commands) {
  constexpr std::size_t kCommandsPerStream = 3;
  const std::size_t first = commands.size();
  for (const Stream& each : streams_) {
    commands.add("XPENDING", each.key, kConsumerGroup).add("XLEN", each.key);
    commands.add("XRANGE", each.key, "-", "+", "COUNT", 1);
  }
  commands.add("TIME");
  FRESHET_TRY(replies, redis_.call_all(commands));
  const auto now = redis::parse_time(replies->back());
  Backlog out;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Reply* const stream_replies = &(*replies)[first + kCommandsPerStream * i];
    out.pending += static_cast<std::uint64_t>(stream_replies[0][0].integer().value_or(0));
    out.entries += static_cast<std::uint64_t>(stream_replies[1].integer().value_or(0));
    const Reply& oldest = stream_replies[2];
    if (!now || oldest.size() == 0) continue;
    const milliseconds created(parse_entry_id(redis::string_at(oldest[0], 0)).first);
    const auto age = std::chrono::duration_cast<milliseconds>(*now - created).count();
    out.oldest_age_ms = std::max<std::int64_t>(out.oldest_age_ms, age);
  }
  return out;
}

Result<std::vector<std::string>> Streams::last_generated_ids() {
  Pipeline command;
  for (const Stream& each : streams_) command.add("XINFO", "STREAM", each.key);
  FRESHET_TRY(replies, redis_.call_all(command));
  std::vector<std::string> out;
  for (const Reply& each : *replies) out.emplace_back(redis::field_value(each, "last-generated-id"));
  return out;
}

}  // namespace freshet::recorder
