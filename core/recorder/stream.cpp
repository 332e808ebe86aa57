#include "core/recorder/stream.h"

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

Result<Reply> Stream::call(const Pipeline& command) {
  FRESHET_TRY(replies, redis_.call(command));
  for (const Reply& reply : *replies) {
    if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
  }
  return std::move(replies->front());
}

Result<Batch> Stream::claim() {
  Pipeline command;
  command.add("XAUTOCLAIM", keys_.stream(), kGroup, kConsumer, 0, cursor_, "COUNT", count_);
  FRESHET_TRY(reply, call(command));
  cursor_ = std::string(redis::text_at(*reply, 0));
  claimed_ = cursor_ == kStart;
  return read_batch((*reply)[1]);
}

Result<Batch> Stream::read(Wait how) {
  Pipeline command;
  command.command(how == Wait::kNot ? 9 : 11).arg("XREADGROUP").arg("GROUP").arg(kGroup).arg(kConsumer);
  command.arg("COUNT").arg(count_);
  if (how == Wait::kForEntries) command.arg("BLOCK").arg(kBlock.count());
  command.arg("STREAMS").arg(keys_.stream()).arg(">");
  FRESHET_TRY(reply, call(command));
  drained_ = reply->size() == 0;
  if (drained_) return Batch();
  const Reply& entries = (*reply)[0][1];
  read_up_to_ = std::string(redis::text_at(entries[entries.size() - 1], 0));
  return read_batch(entries);
}

Result<Backlog> Stream::acknowledge(const Lease& lease, const Batch& batch, const Pipeline& then) {
  Pipeline command;
  command.script(scripts::kStreamAck).key(keys_.stream()).key(keys_.lease()).arg(kGroup);
  command.arg(lease.token()).arg(lease.ttl().count());
  for (const std::string& entry : batch.entries) command.arg(entry);
  for (std::size_t i = 0; i < then.size(); ++i) command.raw(then.at(i));
  return ask_backlog(command);
}

Result<Backlog> Stream::backlog() {
  Pipeline command;
  command.script(scripts::kStreamAck).key(keys_.stream()).key(keys_.lease()).arg(kGroup).arg(0).arg(0);
  return ask_backlog(command);
}

Result<Backlog> Stream::ask_backlog(const Pipeline& command) {
  FRESHET_TRY(reply, call(command));
  Backlog out;
  out.entries = static_cast<std::uint64_t>((*reply)[0].integer().value_or(0));
  out.oldest_ms = (*reply)[1].integer().value_or(0);
  out.pending = static_cast<std::uint64_t>((*reply)[2].integer().value_or(0));
  return out;
}

Result<std::string> Stream::last_generated() {
  Pipeline command;
  command.add("XINFO", "STREAM", keys_.stream());
  FRESHET_TRY(reply, call(command));
  for (std::size_t i = 0; i + 1 < reply->size(); i += 2) {
    if (redis::text_at(*reply, i) == "last-generated-id") return std::string(redis::text_at(*reply, i + 1));
  }
  return std::string(kStart);
}

}  // namespace freshet::recorder
