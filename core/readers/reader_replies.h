// What the two halves of RedisReaderStore share: how its scripts' replies read, and how times are written.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/time.h"
#include "core/redis/command.h"
#include "core/redis/fields.h"
#include "core/redis/reply.h"
#include "core/redis/script_words.h"

namespace freshet::readers {

inline UnixSeconds time_at(const redis::Reply& reply, std::size_t index) {
  return UnixSeconds{seconds{redis::whole(redis::text_at(reply, index))}};
}

inline Error unknown_item() { return {ErrorCode::kNotFound, "unknown_item", "topicId", "no such item"}; }

// The errors that reader_*.lua answer, before what the server itself may say.
inline Error reader_error(const redis::Reply& reply) {
  if (redis::says(reply.error(), redis::word::kStreamFull)) return redis::stream_full();
  if (redis::says(reply.error(), redis::word::kUnknownItem)) return unknown_item();
  return redis::classify(reply.error());
}

inline Result<void> outcome(const redis::Reply& reply) {
  if (reply.is_error()) return tl::unexpected(reader_error(reply));
  return {};
}

}  // namespace freshet::readers
