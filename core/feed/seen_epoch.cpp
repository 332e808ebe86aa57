#include "core/feed/seen_epoch.h"

#include <algorithm>

#include "core/redis/fields.h"

namespace freshet::feed {

std::size_t SeenEpochs::append_read(redis::Pipeline& out, const ReaderId& reader) const {
  if (!pseudonym_) return 0;
  out.add("GETEX", keys_.seen_epoch(pseudonym_(reader)), "EX", redis::kSeenEpochTtl.count());
  out.add("ZRANGE", keys_.merged_names(reader.view()), 0, -1);
  return 2;
}

Result<void> SeenEpochs::update(const redis::Reply* replies, const ReaderId& reader) {
  for (const redis::Reply* each : {replies, replies + 1}) {
    if (each->is_error()) return tl::unexpected(redis::classify(each->error()));
  }
  Names names{std::max<std::int64_t>(0, redis::parse_or_zero<std::int64_t>(replies[0].text())), {}};
  for (std::size_t i = 0; i < replies[1].size(); ++i)
    names.merged.push_back(ReaderId::trusted(std::string(redis::string_at(replies[1], i))));
  if (names.epoch == 0 && names.merged.empty()) {
    readers_.erase(reader);
    return {};
  }
  if (readers_.size() >= kMaxReaders) readers_.clear();
  readers_[reader] = std::move(names);
  return {};
}

ReaderId SeenEpochs::filter_id(const ReaderId& reader) const {
  const auto found = readers_.find(reader);
  return found == readers_.end() ? reader : name(reader, found->second.epoch);
}

std::vector<ReaderId> SeenEpochs::filter_ids(const ReaderId& reader) const {
  std::vector<ReaderId> out{filter_id(reader)};
  if (const auto found = readers_.find(reader); found != readers_.end())
    out.insert(out.end(), found->second.merged.begin(), found->second.merged.end());
  return out;
}

}  // namespace freshet::feed
