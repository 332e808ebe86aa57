// What the two halves of RedisReaderStore share: how its scripts' replies read, and how times are written.
#pragma once

#include <optional>
#include <string_view>

#include "core/redis/command.h"
#include "core/redis/reply.h"
#include "core/base/time.h"
#include "core/redis/fields.h"
#include "core/redis/script_words.h"

namespace freshet::store {

inline UnixSeconds time_at(const redis::Reply& reply, std::size_t index) {
  return UnixSeconds{seconds{whole(text_at(reply, index))}};
}

inline Error unknown_item() { return {ErrorCode::kNotFound, "unknown_item", "topicId", "no such item"}; }

// The errors that reader_*.lua answer, before what the server itself may say.
inline Error reader_error(const redis::Reply& reply) {
  if (says(reply.error(), word::kStreamFull)) return stream_full();
  if (says(reply.error(), word::kUnknownItem)) return unknown_item();
  return redis::classify(reply.error());
}

inline Result<void> outcome(const redis::Reply& reply) {
  if (reply.is_error()) return tl::unexpected(reader_error(reply));
  return {};
}

}  // namespace freshet::store
