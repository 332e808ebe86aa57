#include "scripts/ctl/commands/reader_selection.h"

#include <sstream>

#include "core/redis/fields.h"
#include "scripts/ctl/commands/redis_scan.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

constexpr std::int64_t kUsPerSecond = 1'000'000;

// `head`: score of the newest item of the reader's timeline; 0: none.
struct TimelineState {
  UnixSeconds last_read;
  std::int64_t head = 0;
};

// 1 RTT for all readers.
Result<std::vector<TimelineState>> timeline_states(redis::BlockingRedis& redis, const redis::Keys& keys,
                                                   const std::string& channel,
                                                   const std::vector<std::string>& readers) {
  redis::Pipeline query;
  for (const std::string& each : readers) {
    query.add("ZSCORE", keys.active_readers(channel), each);
    query.add("ZREVRANGE", keys.timeline(channel, each), 0, 0, "WITHSCORES");
  }
  FRESHET_TRY(replies, run_pipeline(redis, query));
  std::vector<TimelineState> out;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const redis::Reply& head = (*replies)[2 * i + 1];
    if (head.is_error()) return tl::unexpected(redis::classify(head.error()));
    const std::int64_t last = redis::to_int((*replies)[2 * i].string().value_or("0"));
    out.push_back(
        {UnixSeconds{seconds{last}}, head.size() == 2 ? redis::to_int(redis::string_at(head, 1)) : 0});
  }
  return out;
}

}  // namespace

Result<std::vector<ReaderId>> read_reader_ids(const std::vector<std::string>& named,
                                              const std::string& file) {
  std::vector<ReaderId> out;
  if (!file.empty()) {
    FRESHET_TRY(text, read_file(file));
    std::istringstream lines(*text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      if (line.ends_with('\r')) line.pop_back();
      if (line.empty()) continue;
      auto reader = ReaderId::parse(line, "reader");
      if (!reader) {
        return fail(ErrorCode::kInvalid, "bad_id", "readers",
                    file + ": line " + std::to_string(number) + " is not a valid id");
      }
      out.push_back(std::move(*reader));
    }
  }
  for (const std::string& each : named) {
    auto reader = ReaderId::parse(each, "reader");
    if (!reader)
      return fail(ErrorCode::kInvalid, "bad_id", "reader", "--reader " + each + " is not a valid id");
    out.push_back(std::move(*reader));
  }
  return out;
}

bool has_unread(std::int64_t head, UnixSeconds last_read) {
  return head > last_read.time_since_epoch().count() * kUsPerSecond;
}

Result<void> for_each_active_reader(redis::BlockingRedis& redis, const redis::Keys& keys,
                                    const std::string& channel, UnixSeconds since, ActiveReaders& counts,
                                    const std::function<Result<void>(const ReaderId&)>& serve) {
  const PageHandler handle_page = [&](const std::vector<std::string>& page) -> Result<void> {
    FRESHET_TRY(states, timeline_states(redis, keys, channel, page));
    for (std::size_t i = 0; i < page.size(); ++i) {
      const TimelineState& each = (*states)[i];
      if (each.last_read < since) continue;
      ++counts.readers;
      if (has_unread(each.head, each.last_read)) {
        ++counts.skipped;
      } else if (auto ok = serve(ReaderId::trusted(page[i])); !ok) {
        return ok;
      }
    }
    return {};
  };
  return scan_all(redis, "ZSCAN", keys.active_readers(channel), handle_page);
}

}  // namespace freshet::ctl
