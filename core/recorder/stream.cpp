#include "core/recorder/stream.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/items/item_store.h"
#include "core/recorder/blocking.h"
#include "core/recorder/group.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::recorder {
namespace {

using redis::Pipeline;
using redis::Reply;

// Fixed: a recorder that starts again is the consumer that it was.
constexpr std::string_view kConsumer = "recorder";

std::pair<std::uint64_t, std::uint64_t> parts_of(std::string_view entry) {
  const std::size_t dash = std::min(entry.find('-'), entry.size());
  const std::string_view sequence = dash < entry.size() ? entry.substr(dash + 1) : std::string_view();
  return {redis::parse_or_zero<std::uint64_t>(entry.substr(0, dash)),
          redis::parse_or_zero<std::uint64_t>(sequence)};
}

}  // namespace

bool below(std::string_view a, std::string_view b) { return parts_of(a) < parts_of(b); }

Streams::Streams(const Settings& settings, redis::Endpoint endpoint)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis),
      count_(keys_.per_partition(settings.recorder.batch_size)) {
  for (const redis::PartitionKeys& each : keys_.partitions()) {
    One one;
    one.key = each.stream();
    one.fence = each.fence();
    streams_.push_back(std::move(one));
  }
}

void Streams::restart() {
  for (One& each : streams_) {
    each.cursor = kStart;
    each.claimed = each.drained = false;
    each.cut.clear();
  }
}

bool Streams::done() const { return std::ranges::all_of(streams_, &One::claimed); }
bool Streams::drained() const { return std::ranges::all_of(streams_, &One::drained); }

bool Streams::handed_out(const EntryId& entry) const {
  const One& of = streams_[entry.stream];
  return done() && (of.drained || !below(of.delivered, entry.id)) &&
         (of.held.empty() || below(entry.id, of.held));
}

void Streams::hold(const std::vector<Fanout>& jobs) {
  for (One& each : streams_) each.held.clear();
  for (const Fanout& each : jobs) {
    std::string& held = streams_[each.entry.stream].held;
    if (held.empty()) held = each.entry.id;
  }
}

Result<Batch> Streams::claim() {
  Pipeline commands;
  for (const One& each : streams_) {
    if (each.claimed) continue;
    commands.add("XAUTOCLAIM", each.key, kGroup, kConsumer, 0, each.cursor, "COUNT", count_);
    commands.add("XINFO", "GROUPS", each.key);
  }
  FRESHET_TRY(replies, redis_.call_all(commands));
  Batch out;
  std::size_t at = 0;
  for (unsigned number = 0; number < streams_.size(); ++number) {
    One& each = streams_[number];
    if (each.claimed) continue;
    const Reply &claimed = (*replies)[at], &groups = (*replies)[at + 1];
    at += 2;
    each.cursor = std::string(redis::string_at(claimed, 0));
    each.claimed = each.cursor == kStart;
    each.delivered = redis::field_value(groups[0], "last-delivered-id");  // it has one group
    out.append(read_batch(claimed[1], number));
  }
  return out;
}

Result<Batch> Streams::read(Wait how) {
  Batch out;
  const auto until = std::chrono::steady_clock::now() + kBlock;
  for (;;) {
    FRESHET_TRY(found, look(how, out));
    const bool blocked = how == Wait::kNot || streams_.size() == 1;
    if (*found || blocked || std::chrono::steady_clock::now() + kLook > until) return out;
    std::this_thread::sleep_for(kLook);
  }
}

// True: there was something.
Result<bool> Streams::look(Wait how, Batch& into) {
  const bool blocks = how == Wait::kForEntries && streams_.size() == 1;
  Pipeline commands;
  for (const One& each : streams_) {
    commands.command(blocks ? 11 : 9).arg("XREADGROUP").arg("GROUP").arg(kGroup).arg(kConsumer);
    commands.arg("COUNT").arg(count_);
    if (blocks) commands.arg("BLOCK").arg(kBlock.count());
    commands.arg("STREAMS").arg(each.key).arg(">");
  }
  FRESHET_TRY(replies, redis_.call_all(commands));
  for (unsigned number = 0; number < streams_.size(); ++number) {
    One& each = streams_[number];
    const Reply& read = (*replies)[number];
    each.drained = read.size() == 0;
    if (each.drained) continue;
    const Reply entries = read[0][1];
    each.delivered = redis::string_at(entries[entries.size() - 1], 0);
    into.append(read_batch(entries, number));
  }
  return !drained();
}

// A stream of which nothing was read since it was last cut, and nothing is acknowledged, is left
// alone.
Result<Backlog> Streams::acknowledge(const Lease& lease, const Batch& batch, const Pipeline& then) {
  std::vector<std::vector<std::string_view>> entries(streams_.size());
  for (const EntryId& each : batch.entries) entries[each.stream].push_back(each.id);
  Pipeline commands;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const One& each = streams_[i];
    if (entries[i].empty() && each.cut == each.delivered) continue;
    const auto [ms, sequence] = parts_of(each.delivered);
    commands.script(scripts::kStreamAck).key(each.key).key(each.fence).arg(kGroup).arg(lease.token());
    commands.arg(std::to_string(ms) + "-" + std::to_string(sequence + 1));
    for (const std::string_view entry : entries[i]) commands.arg(entry);
  }
  for (std::size_t i = 0; i < then.size(); ++i) commands.raw(then.at(i));
  lease.append_renewal(commands);
  auto backlog = ask_backlog(std::move(commands));
  if (!backlog) return backlog;
  for (One& each : streams_) each.cut = each.delivered;
  return backlog;
}

Result<Backlog> Streams::backlog() { return ask_backlog({}); }

Result<Backlog> Streams::ask_backlog(Pipeline commands) {
  constexpr std::size_t kEach = 3;
  const std::size_t first = commands.size();
  for (const One& each : streams_) {
    commands.add("XPENDING", each.key, kGroup).add("XLEN", each.key);
    commands.add("XRANGE", each.key, "-", "+", "COUNT", 1);
  }
  commands.add("TIME");
  FRESHET_TRY(replies, redis_.call_all(commands));
  const auto now = redis::parse_time(replies->back());
  Backlog out;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Reply* const of = &(*replies)[first + kEach * i];
    out.pending += static_cast<std::uint64_t>(of[0][0].integer().value_or(0));
    out.entries += static_cast<std::uint64_t>(of[1].integer().value_or(0));
    const Reply& oldest = of[2];
    if (!now || oldest.size() == 0) continue;
    const milliseconds made(parts_of(redis::string_at(oldest[0], 0)).first);
    const auto age = std::chrono::duration_cast<milliseconds>(*now - made).count();
    out.oldest_ms = std::max<std::int64_t>(out.oldest_ms, age);
  }
  return out;
}

Result<std::vector<std::string>> Streams::last_generated() {
  Pipeline command;
  for (const One& each : streams_) command.add("XINFO", "STREAM", each.key);
  FRESHET_TRY(replies, redis_.call_all(command));
  std::vector<std::string> out;
  for (const Reply& each : *replies) out.emplace_back(redis::field_value(each, "last-generated-id"));
  return out;
}

}  // namespace freshet::recorder
