#include "core/feed/seen_epoch.h"

#include "core/redis/fields.h"

namespace freshet::feed {

std::size_t SeenEpochs::append_read(redis::Pipeline& out, const ReaderId& reader) const {
  if (!pseudonym_) return 0;
  out.add("GETEX", keys_.seen_epoch(pseudonym_(reader)), "EX", redis::kSeenEpochTtl.count());
  return 1;
}

Result<void> SeenEpochs::update(const redis::Reply& reply, const ReaderId& reader) {
  if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
  const auto epoch = redis::parse_or_zero<std::int64_t>(reply.text());
  if (epoch <= 0) {
    epochs_.erase(reader);
    return {};
  }
  if (epochs_.size() >= kMaxReaders) epochs_.clear();
  epochs_[reader] = epoch;
  return {};
}

ReaderId SeenEpochs::filter_id(const ReaderId& reader) const {
  const auto found = epochs_.find(reader);
  if (found == epochs_.end()) return reader;
  return ReaderId::trusted(reader.str() + kIdMark + std::to_string(found->second));
}

}  // namespace freshet::feed
