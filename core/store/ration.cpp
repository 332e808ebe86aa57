#include "core/store/ration.h"

#include "core/store/fields.h"

namespace freshet::store {

std::optional<Error> ration_error(std::string_view line) {
  constexpr std::string_view kLimited = "RATE_LIMITED ";
  if (!line.starts_with(kLimited)) return std::nullopt;
  line.remove_prefix(kLimited.size());
  return Error{ErrorCode::kRateLimited, "rate_limited", {}, std::string(line.substr(0, line.find(' ')))};
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
