#include "core/recorder/stream.h"

#include <algorithm>
#include <chrono>
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

Stream::Stream(const Settings& settings, redis::Endpoint endpoint)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis),
      count_(settings.recorder.batch) {}

Result<Batch> Stream::claim() {
  Pipeline commands;
  commands.add("XAUTOCLAIM", keys_.stream(), kGroup, kConsumer, 0, cursor_, "COUNT", count_);
  commands.add("XINFO", "GROUPS", keys_.stream());
  FRESHET_TRY(replies, redis_.call_all(commands));
  cursor_ = std::string(redis::text_at((*replies)[0], 0));
  claimed_ = cursor_ == kStart;
  delivered_ = redis::value_of((*replies)[1][0], "last-delivered-id");  // it has one group
  return read_batch((*replies)[0][1]);
}

Result<Batch> Stream::read(Wait how) {
  Pipeline command;
  command.command(how == Wait::kNot ? 9 : 11).arg("XREADGROUP").arg("GROUP").arg(kGroup).arg(kConsumer);
  command.arg("COUNT").arg(count_);
  if (how == Wait::kForEntries) command.arg("BLOCK").arg(kBlock.count());
  command.arg("STREAMS").arg(keys_.stream()).arg(">");
  FRESHET_TRY(replies, redis_.call_all(command));
  const Reply& streams = replies->front();
  drained_ = streams.size() == 0;
  if (drained_) return Batch();
  const Reply& entries = streams[0][1];
  delivered_ = redis::text_at(entries[entries.size() - 1], 0);
  return read_batch(entries);
}

Result<Backlog> Stream::acknowledge(const Lease& lease, const Batch& batch, const Pipeline& then) {
  const auto [ms, sequence] = parts_of(delivered_);
  Pipeline commands;
  commands.script(scripts::kStreamAck).key(keys_.stream()).key(keys_.lease()).arg(kGroup).arg(lease.token());
  commands.arg(lease.ttl().count()).arg(std::to_string(ms) + "-" + std::to_string(sequence + 1));
  for (const std::string& entry : batch.entries) commands.arg(entry);
  for (std::size_t i = 0; i < then.size(); ++i) commands.raw(then.at(i));
  return ask_backlog(std::move(commands));
}

Result<Backlog> Stream::backlog() { return ask_backlog({}); }

Result<Backlog> Stream::ask_backlog(Pipeline commands) {
  commands.add("XPENDING", keys_.stream(), kGroup).add("XLEN", keys_.stream());
  commands.add("XRANGE", keys_.stream(), "-", "+", "COUNT", 1).add("TIME");
  FRESHET_TRY(replies, redis_.call_all(commands));
  const Reply* const last = &replies->back();
  const Reply &pending = last[-3], &oldest = last[-1];
  Backlog out;
  out.entries = static_cast<std::uint64_t>(last[-2].integer().value_or(0));
  out.pending = static_cast<std::uint64_t>(pending[0].integer().value_or(0));
  if (const auto now = redis::time_of(*last); now && oldest.size() > 0) {
    const milliseconds made(parts_of(redis::text_at(oldest[0], 0)).first);
    out.oldest_ms = std::max<std::int64_t>(0, std::chrono::duration_cast<milliseconds>(*now - made).count());
  }
  return out;
}

Result<std::string> Stream::last_generated() {
  Pipeline command;
  command.add("XINFO", "STREAM", keys_.stream());
  FRESHET_TRY(replies, redis_.call_all(command));
  return std::string(redis::value_of(replies->front(), "last-generated-id"));
}

}  // namespace freshet::recorder
