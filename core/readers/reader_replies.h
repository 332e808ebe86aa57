// Helpers shared by the two halves of RedisReaderStore: parsing of replies and times.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/time.h"
#include "core/redis/errors.h"
#include "core/redis/fields.h"
#include "core/redis/reply.h"

namespace freshet::readers {

inline UnixSeconds parse_time(const redis::Reply& reply, std::size_t index) {
  return UnixSeconds{seconds{redis::to_int(redis::string_at(reply, index))}};
}

inline Result<void> to_result(const redis::Reply& reply) {
  if (reply.is_error()) return tl::unexpected(redis::classify(reply.error()));
  return {};
}

}  // namespace freshet::readers
