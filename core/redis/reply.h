// Redis replies as owned, typed values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/redis/errors.h"

struct redisReply;

namespace freshet::redis {

// Owns one reply of the server (hiredis' tree of redisReply). Empty after a move.
class Reply {
 public:
  Reply() = default;
  explicit Reply(redisReply* raw) : raw_(raw) {}
  bool is_error() const;
  bool is_nil() const;
  bool is_array() const;
  std::string_view error() const;  // "NOSCRIPT …"; empty when not an error
  // The typed readings. A reply of another type gives kInternal, "redis_type"; a server error what
  // classify() (errors.h) says.
  Result<std::int64_t> integer() const;     // an integer, or a string that is one
  Result<std::string_view> string() const;  // a string or status; valid while this Reply lives
  Result<std::optional<std::string_view>> optional_string() const;  // nil: nullopt
  Result<double> number() const;              // a string such as "%.17g" writes, or an integer
  std::size_t size() const;                   // elements of an array, else 0
  Reply operator[](std::size_t index) const;  // a view of an element: valid while the owner lives

 private:
  // Elements of an array belong to the array's owner.
  struct Deleter {
    Deleter() noexcept : owner(true) {}
    explicit Deleter(bool owns) noexcept : owner(owns) {}
    void operator()(redisReply* raw) const noexcept;
    bool owner;
  };
  Reply(redisReply* raw, bool owner) : raw_(raw, Deleter(owner)) {}
  std::unique_ptr<redisReply, Deleter> raw_;
};

}  // namespace freshet::redis
