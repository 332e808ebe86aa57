#include "core/store/ration.h"

#include "core/store/fields.h"
#include "core/store/script_words.h"

namespace freshet::store {

std::optional<Error> ration_error(std::string_view line) {
  if (!says(line, word::kRateLimited)) return std::nullopt;
  const std::string_view seconds_left = after_word(line);
  return Error{ErrorCode::kRateLimited,
               "rate_limited",
               {},
               std::string(seconds_left.substr(0, seconds_left.find(' ')))};
}

Task<Result<redis::Reply>> run_rationed(redis::Redis& redis, const redis::Pipeline& command) {
  auto replies = co_await redis.run(command);
  if (!replies) co_return tl::unexpected(replies.error());
  redis::Reply& reply = replies->front();
  if (!reply.is_error()) co_return std::move(reply);
  if (const auto limited = ration_error(reply.error())) co_return tl::unexpected(*limited);
  co_return tl::unexpected(redis::classify(reply.error()));
}

}  // namespace freshet::store
