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

struct redisReader;
struct redisReply;

namespace freshet::redis {

// Owns one reply of the server (hiredis' tree of redisReply). Empty after a move.
class Reply {
 public:
  Reply() = default;
  explicit Reply(redisReply* raw) : raw_(raw, Deleter(Owner::kHiredis)) {}
  // REQUIRES: `resp` is one whole reply as a server writes it.
  static Reply from_resp(std::string_view resp);
  // An error of ours, as if a server had answered it.
  static Reply from_error(std::string_view line);
  // Owns one that a ReplyAssembly made.
  static Reply from_tree(redisReply* raw) { return Reply(raw, Owner::kTree); }
  bool is_error() const;
  bool is_nil() const;
  bool is_array() const;
  std::string_view error() const;  // "NOSCRIPT …"; empty when not an error
  // The typed readings. A reply of another type gives kInternal, "redis_type"; a server error what
  // classify() (errors.h) says.
  Result<std::int64_t> integer() const;     // an integer, or a string that is one
  Result<std::string_view> string() const;  // a string or status; valid while this Reply lives
  Result<std::optional<std::string_view>> optional_string() const;  // nil: nullopt
  // A string or status; "" for anything else. Valid while this Reply lives.
  std::string_view text() const;
  Result<double> number() const;              // a string such as "%.17g" writes, or an integer
  std::size_t size() const;                   // elements of an array, else 0
  Reply operator[](std::size_t index) const;  // a view of an element: valid while the owner lives

 private:
  enum class Owner : std::uint8_t {
    kNone,   // elements of an array belong to the array's owner
    kHiredis,  // this; freed as hiredis frees its own
    kTree      // this; freed as a tree
  };
  struct Deleter {
    Deleter() noexcept : owner(Owner::kHiredis) {}
    explicit Deleter(Owner reply_owner) noexcept : owner(reply_owner) {}
    void operator()(redisReply* raw) const noexcept;
    Owner owner;
  };
  Reply(redisReply* raw, Owner owner) : raw_(raw, Deleter(owner)) {}
  std::unique_ptr<redisReply, Deleter> raw_;
};

struct ReplyTree;

// What a reader of a connection is assembling: replies as trees, each with all its parts in one
// piece of memory (or few, when it is long), where hiredis takes two for every string. Outlives the
// reader.
class ReplyAssembly {
 public:
  // From now on the replies of `reader` are trees of this kind.
  void attach(redisReader& reader);
  // Leaves this reply to the caller when hiredis would free it.
  void detach(redisReply* reply) { detached_ = reply; }

 private:
  friend struct TreeFunctions;
  ReplyTree* current_ = nullptr;
  redisReply* detached_ = nullptr;
};

}  // namespace freshet::redis
