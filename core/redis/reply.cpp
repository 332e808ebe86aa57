#include "core/redis/reply.h"

#include <charconv>
#include <cmath>

extern "C" {
#include <hiredis/hiredis.h>
}

#include "core/redis/redis.h"

namespace freshet::redis {

namespace {

tl::unexpected<Error> wrong_type(const char* wanted) {
  return fail(ErrorCode::kInternal, "redis_type", {}, std::string("reply is not ") + wanted);
}

std::string_view text_of(const redisReply* raw) { return {raw->str, static_cast<std::size_t>(raw->len)}; }

bool is_text(const redisReply* raw) {
  return raw && (raw->type == REDIS_REPLY_STRING || raw->type == REDIS_REPLY_STATUS);
}

}  // namespace

void Reply::Deleter::operator()(redisReply* raw) const noexcept {
  if (owner) freeReplyObject(raw);
}

bool Reply::is_error() const { return raw_ && raw_->type == REDIS_REPLY_ERROR; }
bool Reply::is_nil() const { return raw_ && raw_->type == REDIS_REPLY_NIL; }
bool Reply::is_array() const { return raw_ && raw_->type == REDIS_REPLY_ARRAY; }
std::string_view Reply::error() const { return is_error() ? text_of(raw_.get()) : std::string_view(); }

Result<std::int64_t> Reply::integer() const {
  if (is_error()) return tl::unexpected(classify(error()));
  if (raw_ && raw_->type == REDIS_REPLY_INTEGER) return raw_->integer;
  if (is_text(raw_.get())) {
    const std::string_view text = text_of(raw_.get());
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  }
  return wrong_type("an integer");
}

Result<std::string_view> Reply::string() const {
  if (is_error()) return tl::unexpected(classify(error()));
  if (is_text(raw_.get())) return text_of(raw_.get());
  return wrong_type("a string");
}

Result<std::optional<std::string_view>> Reply::optional_string() const {
  if (is_nil()) return std::optional<std::string_view>();
  return string().map([](std::string_view text) { return std::optional(text); });
}

Result<double> Reply::number() const {
  if (is_error()) return tl::unexpected(classify(error()));
  if (raw_ && raw_->type == REDIS_REPLY_INTEGER) return static_cast<double>(raw_->integer);
  if (is_text(raw_.get())) {
    const std::string_view text = text_of(raw_.get());
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  }
  return wrong_type("a finite number");
}

std::size_t Reply::size() const { return is_array() ? raw_->elements : 0; }

Reply Reply::operator[](std::size_t index) const {
  if (index >= size()) return Reply();
  return Reply(raw_->element[index], false);
}

Task<Result<Replies>> run_all(Redis& redis, const Pipeline& pipeline) {
  auto replies = co_await redis.run(pipeline);
  if (!replies) co_return replies;
  for (const Reply& each : *replies) {
    if (each.is_error()) co_return tl::unexpected(classify(each.error()));
  }
  co_return replies;
}

Task<Result<Reply>> run_one(Redis& redis, const Pipeline& pipeline) {
  FRESHET_CO_TRY(replies, co_await redis.run(pipeline));
  Reply& first = replies->front();
  if (first.is_error()) co_return tl::unexpected(classify(first.error()));
  co_return std::move(first);
}

}  // namespace freshet::redis
